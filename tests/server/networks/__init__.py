"""Networks behind the Open Inference Protocol."""
