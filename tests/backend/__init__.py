"""Tests of ``rknnlite_backend``: what backends share."""
