"""Tests of ``rknnlite.files``: written whole, mapped with care."""
