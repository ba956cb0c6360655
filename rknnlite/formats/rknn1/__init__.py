"""Files of RKNN-Toolkit 1 (RK1806, RK1808, RK3399Pro, RV1109, RV1126): constants, and a graph described in JSON."""

from __future__ import annotations

from .model import Rknn1Model, read

__all__ = ["Rknn1Model", "read"]
