"""Vision: what lies before a network that looks at pictures, and behind it. numpy alone; OpenCV or Pillow where they are there.

* What is found: ``results``. Where a picture lies in a network's input, and back: ``placement``.
* ``before``: pictures and frames of cameras to what a network takes.
* ``heads``: outputs to what is found: which head a network has, and its decoder.
* ``evaluation``: accuracy on datasets. ``streams``: pipelines from a source to a sink, tracks.
* ``commands``: ``detect``, ``classify``, ``segment``, ``pose``, ``read``, ``eval``.
"""

from __future__ import annotations
