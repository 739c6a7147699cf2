"""The rules of Memory, Scratch and StateStore: plain functions, with no gRPC, no engine and no clock of their own."""
