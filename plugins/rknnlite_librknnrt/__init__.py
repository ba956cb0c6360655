"""librknnrt.so of our own: programs in C, C++, Go, Rust on the CPU reference, without a board.

``client`` is the library in C; ``server`` is the process that it starts, with this package's other modules.
"""
