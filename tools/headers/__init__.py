"""The C headers of librknnrt and librknn3_api, written from the tables of ``rknnlite.abi``: ``python -m tools.headers``."""
