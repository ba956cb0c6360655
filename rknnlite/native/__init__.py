"""What owns objects of other languages, and what this machine is; for plugins.

* ``objects`` and ``addresses`` own and touch memory, ``crash`` makes sense of crashes.
* ``processes`` and ``forks``: other processes of Python, and what does not survive a fork.
* ``board`` and ``processors``: this machine.
"""
