"""Commands of vision: ``detect``, ``classify``, ``segment``, ``pose``, ``read``, ``eval``, a module each.

* What they share: ``look`` (the command itself), ``film`` (its part for streams), ``options``, ``sources`` (which words name
  pictures, and which a stream), ``looker`` (the network on all cores), ``telling`` (what is printed and shown).
* ``contestants``: the networks that ``eval`` puts side by side.
"""
