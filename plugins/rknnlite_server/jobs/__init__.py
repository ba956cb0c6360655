"""Work that may wait: OpenAI's files and batches, kept in a folder and computed where nobody else waits.

* ``kept_files`` (files of clients, in a folder of this user's alone), ``batch`` (a batch and its lines), ``job_store`` (both,
  over the lives of several servers).
* ``runner`` (takes batches one after the other), ``inner_call`` (a line as a request to the application itself).
* ``figures`` (for Prometheus). Routes: ``file_routes``, ``batch_routes``.
"""
