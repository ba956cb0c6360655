"""The server's part of ``librkllmrt.so``: ``opening``, ``stand_in`` (which model stands for a ``.rkllm``), ``model``, ``history``, ``inputs``, ``runs``, ``callbacks``."""
