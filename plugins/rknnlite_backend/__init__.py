"""What backends share.

* Who runs what: ``running`` (the order of calls, said once), ``begun_frames`` with ``in_flight`` (frames that a context has
  begun), ``perf`` (figures).
* Zero-copy: ``zero_copy`` (the rules), ``zero_copy_context`` with ``bindings``, ``host_memory`` (memfds) and
  ``cache_coherence`` for contexts that compute in this process.
* Products: ``matmul``, ``matrices``. ``node_runners``: whoever computes single nodes for another backend.
* Libraries in C: ``library`` (found and loaded), ``elf`` (whole?), ``trial`` (loaded by another process first), ``crash``
  (what it says), ``native_objects`` (who owns what), ``addresses``, ``versions``, ``rknn_calls``; structures in ``abi``.
* ``former_paths``: modules under the names that they had in the core.
"""
