"""Facts of the vendor's C ABIs as ctypes structures; for plugins and faces."""
