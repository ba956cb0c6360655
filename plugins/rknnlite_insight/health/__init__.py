"""What ``rknnlite doctor`` says of the machine, of boards from afar and of models: findings, each with what to do about it."""

from __future__ import annotations

from .boards import named
from .bug_report import check_place, report_text, write_report
from .machine import kernel, speed
from .models import model
from .report import look_afar

__all__ = ["check_place", "kernel", "look_afar", "model", "named", "report_text", "speed", "write_report"]
