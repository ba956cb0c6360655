"""Code of other languages: finding libraries, owning their objects, building helpers, child processes; for plugins."""
