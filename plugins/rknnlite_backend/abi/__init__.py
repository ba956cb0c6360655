"""Structures and functions of the vendor's C libraries that no face of ours has: those that faces have are in ``rknnlite.abi``."""
