"""Tests of ``rknnlite.native``: code of other languages."""
