"""Why a network is refused or not good: findings by hand, layer by layer, shown beside the figures."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

__all__ = ["reason_for"]

# (pattern of networks, pattern of targets, reason)
_REASONS: tuple[tuple[str, str, str], ...] = ()


def reason_for(network: str, targets: Sequence[str]) -> str:
    """The finding for a network on (the first of) its targets, or nothing."""
    for networks, where, reason in _REASONS:
        if fnmatch.fnmatch(network, networks) and fnmatch.fnmatch(targets[0], where):
            return reason
    return ""
