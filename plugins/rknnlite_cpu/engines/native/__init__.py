"""The project's own engine for networks of 8 bits: C files that are built on this machine, and what tells them of a network.

``lowering`` writes nodes as ops on tensors (``writer``): ``convolutions`` those with weights, ``output_functions`` what follows
them, ``recurrent`` LSTM and GRU, ``shuffles`` values in another order, ``joins_and_moves`` the rest; ``packing`` lays weights as
kernels read them. ``description`` is what an op is, checks it and keeps it as bytes, ``workspace`` places tensors, ``library``
builds the C files and hands ops to them. ``program.c`` shares ops among threads, ``convolution.c``, ``depthwise.c``,
``functions.c``, ``recurrent.c``, ``reals.c`` and ``rows.c`` compute, on ``vectors.h`` and ``rational.h``.
"""
