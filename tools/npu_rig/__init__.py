"""A kernel with an NPU on a PC: programs that were made for one run here, and their jobs are executed by the machine.

* ``kernel`` answers programs that ``preload.c`` is preloaded into: files of devices, connections, memory of the program;
  ``driver`` is what a device does, and how it misbehaves on command; ``gem`` is what drivers have in
  common, ``rocket`` mainline's, ``rknpu`` the vendor's, ``rknpu_node`` that of RV110x.
* ``build`` compiles, ``running`` starts programs, also of other processors.
* ``rknpu_shell.c`` uses a device line by line; ``rknpu_abi.h`` is the interface a second time.
"""
