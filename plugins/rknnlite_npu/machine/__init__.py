"""A machine that executes the NPU's command words on buffers: registers only, no graph.

* ``machine`` runs task records: it fetches words, keeps both groups of registers, starts units; ``memory`` is what they read
  and write; ``refused`` is the error for whatever is not understood.
* ``registers`` are fields with names, and what of them a unit has looked at; ``designs``, with ``designs_v2`` and
  ``designs_rv110x``, is what NPU families have elsewhere; ``numbers`` are element types and roundings, ``surfaces`` how
  tensors lie in memory.
* Fetching: ``cna``, with ``weights``, ``prepared_weights`` and ``compressed`` ones. Products and sums: ``core``; largest numbers
  where RV1103B has sums: ``window_maxima``.
* Output: ``dpu``, with ``scaling`` (BS, BN), ``elementwise`` (EW), ``lut`` (tables) and ``writer``; of RV1103B ``joined`` (BN and
  EW) and ``moves``; ``rdma`` fetches for it.
* Pooling: ``ppu``.
"""
