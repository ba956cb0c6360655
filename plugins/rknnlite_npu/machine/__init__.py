"""A machine that executes the NPU's command words on buffers: registers only, no graph.

* ``machine`` runs task records: it fetches words, keeps both groups of registers, starts units; ``memory`` is what they read
  and write; ``refused`` is the error for whatever is not understood.
* ``registers`` are fields with names and what of them a unit has looked at; ``numbers`` roundings and element types.
* Units: ``cna`` fetches features, ``weights`` and ``compressed`` weights; ``core`` multiplies and adds; ``rdma`` fetches operands, ``dpu`` is
  the output stage, ``lut`` its tables, ``writer`` how results lie in memory; ``ppu`` pools.
"""
