"""Crashes, other processes, and what this machine is; for plugins.

* ``crash`` makes sense of crashes.
* ``processes`` and ``forks``: other processes of Python, and what does not survive a fork. ``first_import``: one that may crash.
* ``board`` and ``processors``: this machine.
"""
