"""The one place that holds the version of rknnlite."""

__version__ = "0.1.0"
