"""Why the accuracy of a model is gone: the cause by name, with figures, and which layers to keep in float16.

* ``diagnosis`` (``diagnose``): all of it. ``trial``: a model opened for trials; ``edge``: a tensor, channel by channel;
  ``layers``: edges and layers of a graph.
* ``preprocessing``: mean, deviation, order of colours; ``judging``: from figures to a ``cause``; ``hybrid``: lists for the
  converter, tried; ``calibration``: a calibration set against these inputs; ``samples``: inputs from files;
  ``quantization_cfg``: the converter's own file.
"""

from __future__ import annotations

from .cause import Cause, Diagnosis, Harm, HybridStep
from .diagnosis import diagnose
from .edge import Edge

__all__ = ["Cause", "Diagnosis", "Edge", "Harm", "HybridStep", "diagnose"]
