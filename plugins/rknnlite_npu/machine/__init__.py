"""A machine that executes the NPU's command words on buffers: registers only, no graph.

* ``machine`` runs task records: it fetches words, keeps both groups of registers, starts units; ``memory`` is what they read
  and write; ``refused`` is the error for whatever is not understood.
* ``registers`` are fields with names, and what of them a unit has looked at; ``designs`` and ``designs_v2`` are
  what NPU families have elsewhere; ``numbers`` are element types and roundings, ``surfaces`` how tensors lie in memory.
* Fetching: ``cna``, with ``weights``, ``prepared_weights`` and ``compressed`` ones. Products and sums: ``core``.
* Output: ``dpu``, with ``scaling`` (BS, BN), ``elementwise`` (EW), ``lut`` (tables) and ``writer``; ``rdma`` fetches for it.
* Pooling: ``ppu``.
"""
