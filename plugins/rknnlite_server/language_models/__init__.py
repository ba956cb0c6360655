"""Language models that come and go: those of a folder, and what clients may do with it.

* ``library``: which there are, by name; ``open_models``: which are open, who uses them, and which leaves when there is no room;
  ``model_entry``: one of them; ``parameters``: what it assumes where a request says nothing.
* ``load_routes``: loading and unloading. ``administration``: pull, create, copy, delete, and who may; ``blobs``: files that clients
  send for that.
"""
