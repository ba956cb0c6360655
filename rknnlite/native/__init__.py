"""Memory, other processes, and what this machine is; for plugins.

* ``addresses`` touch memory, ``crash`` makes sense of crashes.
* ``processes`` and ``forks``: other processes of Python, and what does not survive a fork.
* ``board`` and ``processors``: this machine.
"""
