"""The one place that holds the version of rknnlite."""

__version__ = "1.0.0rc1"
