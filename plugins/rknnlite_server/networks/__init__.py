"""The Open Inference Protocol: networks in pools behind REST and gRPC, beside the language models.

* ``network`` (an opened one: its pool, who waits), ``batching`` and ``batches`` (requests that share a run), ``statistics``,
  ``figures``.
* Networks by name: ``repository``, ``uploads``, ``uploaded_networks``.
* HTTP: ``rest``, ``rest_repository``.
* gRPC: ``rpc`` and, around its calls, ``rpc_access`` (keys), ``rpc_calls`` (room, time), ``rpc_errors``, ``rpc_counting``,
  ``rpc_traced``; ``inference_rpc``, ``repository_rpc``, ``board_rpc``; ``ordered_answers`` of streams.
* For contexts from afar: ``bound_memory``, ``inspection``, ``board_facts``, ``folder_stream``.
"""
