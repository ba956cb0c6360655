"""The Open Inference Protocol without web framework or gRPC: requests as values and on the wire, how a context answers them.

* ``requests``: requests and responses as values; ``datatypes``, ``metadata``; ``error_status``: which status an error has.
* On the wire: ``rest_codec`` and ``tensor_json`` (HTTP), ``grpc_codec`` and ``grpc_messages`` (gRPC; ``*.proto``, compiled in
  ``messages.desc``).
* ``execution``: how a context answers. ``board``, ``board_facts`` and ``dataclass_json``: the service of boards, what one
  tells of itself, and its JSON.
* ``traces``: OpenTelemetry's spans, and how a trace goes on in another process.
"""
