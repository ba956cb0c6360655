"""``fidelity="silicon"``: the network in the integers of its registers, rounded as people measured it on chips.

* ``rules`` says which nodes are computed so, and why the others follow the vendor's simulator; ``arithmetic`` rounds.
* ``stage`` is what follows a convolution, ``operands`` nodes of one or two tensors, ``pools`` averages, ``tables`` activation
  tables.
"""
