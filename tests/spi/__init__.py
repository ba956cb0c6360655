"""Tests of ``rknnlite.spi``: the contracts of plugins."""
