"""Commands of vision."""
