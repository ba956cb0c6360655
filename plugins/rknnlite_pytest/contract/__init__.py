"""The contract of ``rknnlite.spi`` as tests, for the author of a backend: ``pytest --rknnlite-backend NAME``.

* ``fixtures`` opens the backend and the models, ``promises`` words what is broken.
* The promises: ``test_backend`` (probing, refusing, opening), ``test_context`` (what a context says it is), ``test_frames``
  (inputs, runs, outputs), ``test_shapes``, ``test_memory``, ``test_life`` (closing, threads, duplicates), ``test_faces``.
"""
