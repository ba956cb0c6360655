"""Which route a path belongs to, for figures and traces: its pattern, never the path itself."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import BaseRoute, Mount, Route

__all__ = ["RoutePaths"]

_ELSE = "other"  # so that made-up paths make no figures of their own


class RoutePaths:
    """The patterns of routes, in their order."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._paths = [
            (route.path, route.path_regex) for route in routes if isinstance(route, (Route, Mount))
        ]

    def of(self, path: str) -> str:
        """The pattern that fits first, ``other`` for a path that none does."""
        return next((known for known, pattern in self._paths if pattern.match(path)), _ELSE)
