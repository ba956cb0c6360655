"""Facts of the vendor's C ABIs as ctypes structures, shared by the plugins that need them. Nothing is loaded here."""
