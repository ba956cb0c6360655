"""Other processes, and what this machine is; for plugins.

* ``processes`` and ``forks``: other processes of Python, and what does not survive a fork. ``first_import``: one that may crash;
  ``remembered``: whether it did.
* ``board`` and ``processors``: this machine.
"""
