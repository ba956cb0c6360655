"""The project's own engine for networks of 8 bits: C files, and what tells them of a network.

``lowering`` writes nodes as ops on tensors (``writer``): ``convolutions`` those with weights, ``output_functions`` what follows
them, ``joins_and_moves`` the rest; ``packing`` lays weights as kernels read them. ``description`` is what an op is, checks it and
keeps it as bytes, ``workspace`` places tensors, ``library`` loads the C files and hands ops to them: from a wheel
(``prebuilt``) or built here, as ``recipe`` says. ``program.c`` shares ops among threads, ``convolution.c``, ``depthwise.c``,
``functions.c`` and ``rows.c`` compute, on ``vectors.h``.
"""
