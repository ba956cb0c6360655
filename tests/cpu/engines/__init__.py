"""Engines held against the numpy kernels."""
