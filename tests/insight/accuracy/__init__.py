"""Tests of the analysis that names causes: ``networks`` have planted faults, ``convert`` makes their files."""
