"""Facts of the vendor's C ABIs as ctypes structures, and what finds a library and owns its objects; for plugins."""
