"""Number crunching without knowledge of graphs."""
