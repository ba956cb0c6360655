"""Tests of graphs and of what is known of operators."""
