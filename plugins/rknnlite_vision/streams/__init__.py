"""Streams: a source, a network and a sink beside each other; tracks.

* ``pipeline``: pictures through a pool in their order. ``reader``: its thread that reads. ``stages``: where an error came.
* ``figures``: what a pipeline counts, and how long each stage takes.
* ``sources``: folders, films, cameras. ``sinks``: films, folders. ``looking``: a network for pictures as a pipeline's steps.
* ``byte_track``: which thing is one that was seen before; ``motion`` and ``assignment`` are what that takes.
"""
