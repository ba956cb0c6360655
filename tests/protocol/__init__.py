"""Tests of the Open Inference Protocol's forms."""
