"""From the description of a toolkit-1 file to a ``Graph``."""
