"""From the tables of a container to a ``Graph``: nodes, stages, convolutions, weights.

* ``builder`` makes the graph; ``blob_locations`` and ``tensor_storage`` find bytes; ``attributes`` and ``bson`` read
  attributes.
* The NPU's side: ``registers`` and ``register_map`` (commands, and where each generation keeps what), ``npu_families`` (a row
  of facts per family), ``convolutions``, ``output_stages`` with ``integer_places``, ``products`` with ``matmul_scales``,
  ``fused_ops`` (``ConvLeakyReluAdd`` taken apart).
* Weights: ``weights``, ``weight_forms``, ``recurrent_weights``, ``compressed_weights``, ``weight_decompression`` and its
  ``weight_decompression_fast``.
* What a file leaves out: ``missing_shapes``, ``inferred_attributes`` (known without doubt), ``estimated_parameters`` (guessed).
* What is doubtful or wrong: ``unverified_facts`` is told, ``graph_checks`` refuses.
"""
