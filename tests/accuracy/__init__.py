"""Tests of ``rknnlite.accuracy``."""
