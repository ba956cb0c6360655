"""Graphs as ONNX: segments for engines, ``rknnlite export-onnx``, ``rknnlite port``."""
