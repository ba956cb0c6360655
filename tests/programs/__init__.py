"""Tests of ``rknnlite_programs``: programs built on first use, and child processes."""
