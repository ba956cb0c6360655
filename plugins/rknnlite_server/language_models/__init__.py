"""Language models that come and go: those of a folder, and what clients may do with it.

* ``library``: which there are, which are open, who uses them, and which leaves when there is no room; ``model_entry``: one of them.
* ``load_routes``: loading and unloading. ``administration``: pull, create, copy, delete, and who may; ``blobs``: files that clients
  send for that.
"""
