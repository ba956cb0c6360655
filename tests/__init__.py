"""Tests of rknnlite; ``tests.support`` holds what several of them share."""
