"""Code of other languages: owning its objects, other processes, this machine; for plugins.

* ``objects`` and ``addresses`` own and touch memory, ``crash`` makes sense of crashes.
* ``processes`` and ``forks``: other processes, and this one's.
* ``board`` and ``processors``: this machine.
"""
