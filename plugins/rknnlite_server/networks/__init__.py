"""The Open Inference Protocol: networks in pools behind REST and gRPC, beside the language models."""
