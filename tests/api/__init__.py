"""Tests of the vendor-compatible face (``rknnlite.api``)."""
