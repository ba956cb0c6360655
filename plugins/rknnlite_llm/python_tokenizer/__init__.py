"""Tokenizers in plain Python, for machines without the package ``tokenizers`` (Debian has none)."""

from __future__ import annotations
