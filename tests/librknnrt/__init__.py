"""Tests of librknnrt.so, the library for programs in other languages."""
