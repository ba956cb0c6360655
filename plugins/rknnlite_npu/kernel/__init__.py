"""The kernel's ways to the NPU: transports of its two drivers.

* ``device`` is an open device: its driver's name and version, its ioctls, what went wrong with them.
* ``devices`` finds the NPU's among those of this machine; ``self_test`` compares a model that meets one with the CPU.
* ``rocket`` is the transport of mainline Linux, ``rocket_abi`` its structures; ``rknpu`` that of the vendor's kernels.
"""
