"""Tests of ``rknnlite_insight``."""
