"""gRPC: requests in, answers and errors out. It knows no rules."""
