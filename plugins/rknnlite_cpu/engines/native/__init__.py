"""The project's own engine, for 8 bits and float16: C files that are built on this machine, and what tells them of a network.

``lowering`` writes nodes as ops on tensors (``writer``): ``convolutions`` those with weights, ``output_functions`` what follows
them, ``joins_and_moves`` the rest; ``packing`` lays weights as kernels read them. ``description`` is what an op is, checks it and
keeps it as bytes, ``workspace`` places tensors, ``library`` builds the C files and hands ops to them. ``program.c`` shares ops
among threads, ``convolution.c``, ``depthwise.c``, ``functions.c`` and ``rows.c`` compute, on ``vectors.h``.

Float16 has ``float_nodes``, with ``float_tokens`` and ``float_places``, whose ops ``float_checks`` checks; ``float_convolution.c``
and ``float_winograd.c`` (on ``float_products.c``), ``float_depthwise.c``, ``float_rows.c``, ``float_tokens.c`` and
``float_places.c`` compute, on ``float_vectors.h`` and ``float_stage.h``.
"""
