"""The project's own engine, for 8 bits and float16: C files, and what tells them of a network.

``lowering`` writes nodes as ops on tensors (``writer``): ``convolutions`` those with weights, ``output_functions`` what follows
them, ``recurrent`` LSTM and GRU, ``attention`` that and normalisations, ``planes`` padding and resizing, ``shuffles`` values in
another order, ``joins_and_moves`` the rest; ``packing`` lays weights as kernels read them. ``kinds`` is what an op is,
``description`` keeps a program as bytes, ``checks`` asks whether it stays in its place, ``workspace`` places tensors, ``library``
loads the C files and hands ops to them: from a wheel (``prebuilt``) or built here, as ``recipe`` says. ``program.c`` shares ops
among threads, ``convolution.c``, ``depthwise.c``, ``functions.c``, ``recurrent.c``, ``attention.c``, ``norms.c``, ``resample.c``,
``convert.c`` and ``rows.c`` compute, on ``vectors.h`` and ``rational.h``; ``cut.h`` says what a task is.

Float16 has ``float_nodes``, with ``float_tokens`` and ``float_places``, whose ops ``float_checks`` checks; ``float_convolution.c``
and ``float_winograd.c`` (on ``float_products.c``), ``float_depthwise.c``, ``float_rows.c``, ``float_tokens.c`` and
``float_places.c`` compute, on ``float_vectors.h``, ``float_turns.h`` and ``float_stage.h``.
"""
