"""Helpers of the tests: the corpus of genuine files, hand-made files and graphs."""
