"""Attributes of RKNN3 as C structures have them, for the face and for programs in other languages."""
