"""Tests of the server plugin."""
