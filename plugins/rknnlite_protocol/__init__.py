"""The Open Inference Protocol without web framework or gRPC: requests as values and on the wire, how a context answers them."""
