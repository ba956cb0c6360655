"""Tests of the CPU reference."""
