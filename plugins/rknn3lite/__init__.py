"""The import name of the vendor's rknn3-toolkit-lite: ``rknn3lite.api`` hands on ``rknnlite.rknn3``."""
