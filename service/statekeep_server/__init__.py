"""The Statekeep server: rules in core/, records in engines/, gRPC in rpc/."""
