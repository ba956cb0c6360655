"""``fidelity="silicon"``: the network in the integers of its registers, rounded as people measured it on chips.

* ``rules`` says which nodes are computed so, and why the others follow the vendor's simulator; ``trial`` tries whether the
  integers of a node do what its tensors say; ``telling`` and ``inspection`` say so at opening and in ``info``.
* ``arithmetic`` rounds; ``stage`` is what follows a convolution, ``operands`` nodes of one or two tensors, ``pools`` averages,
  ``resizes`` linear resizes, ``tables`` activation tables.
"""
