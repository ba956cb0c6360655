"""C ABI of librkllmrt: seven layouts as ctypes structures, and what identifies a published file."""
