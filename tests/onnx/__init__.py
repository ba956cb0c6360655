"""Graphs lowered to ONNX, run by onnxruntime beside the numpy kernels."""
