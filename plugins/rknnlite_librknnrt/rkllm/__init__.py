"""The server's part of ``librkllmrt.so``.

``opening`` and ``stand_in`` (which model stands for a ``.rkllm``); ``model`` with ``inputs``, ``history``, ``runs``, ``callbacks``.
"""
