"""What programs written for the PC toolkit import beside their operator class."""

from __future__ import annotations

from .._faces.toolkit import get_node_attr

__all__ = ["get_node_attr"]
