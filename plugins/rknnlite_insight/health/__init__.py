"""What ``rknnlite doctor`` says of the machine, of boards from afar and of models: findings, each with what to do about it."""

from __future__ import annotations

from .boards import named
from .machine import kernel, speed
from .models import model
from .report import look_afar

__all__ = ["kernel", "look_afar", "model", "named", "speed"]
