"""Files, written whole or not at all, and read while others may change them."""
