"""Tests of networks written as ONNX."""
