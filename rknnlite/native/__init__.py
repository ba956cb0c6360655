"""Code of other languages: finding libraries, owning their objects, building helpers, child processes; for plugins.

* ``library`` finds and checks, ``versions`` says which runtime opens which model, ``objects`` and ``addresses`` own and touch
  memory, ``rknn_calls`` makes sense of answers, ``crash`` of crashes.
* ``buildcache``: what is built on first use; ``childprocess`` and ``forks``: processes.
* ``board`` and ``processors``: this machine.
"""
