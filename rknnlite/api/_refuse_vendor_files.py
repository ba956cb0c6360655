"""Imported first: refuses to go on when the vendor's rknn-toolkit-lite2 has put its files between ours."""

from __future__ import annotations

from .._faces.vendor_files import refuse_mixture

__all__: list[str] = []

refuse_mixture()
