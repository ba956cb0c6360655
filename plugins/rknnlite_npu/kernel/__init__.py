"""The kernel's ways to the NPU: transports of its two drivers.

* ``device`` is an open device: its driver's name and version, its ioctls, what went wrong with them.
* ``devices`` finds the NPU's among those of this machine, ``device_nodes`` which may be; ``permissions`` is who may use them.
* ``rocket`` is the transport of mainline Linux, ``rocket_abi`` its structures; ``rknpu`` that of the vendor's kernels,
  ``rknpu_buffers`` its memory. ``one_job`` lets jobs run alone where they must not overlap.
* ``evidence`` is which models something is known of; ``self_test`` compares one that meets a device with the CPU,
  ``verdicts`` keeps what that found, ``findings`` tells ``rknnlite doctor``, ``trial`` is its ``--try-npu``.
"""
