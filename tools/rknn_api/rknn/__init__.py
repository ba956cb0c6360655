"""The import name of the vendor's rknn-toolkit2, over rknnlite: see ``rknn.api``."""
