"""The tools that were offered, as far as reading calls needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rknnlite.files.json_text import parse_json

__all__ = ["OfferedTools"]


class OfferedTools:
    """Functions by name with the schemas of their arguments; empty when only known that there are some."""

    def __init__(self, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        functions = [tool.get("function", tool) for tool in tools]
        self._schemas = {str(f.get("name")): f.get("parameters") or {} for f in functions}

    def known(self, name: str) -> bool:
        """Whether it is one of them; any name is, when none are known."""
        return not self._schemas or name in self._schemas

    def properties(self, name: str) -> Mapping[str, Any]:
        """Name -> schema of the arguments of a function."""
        schema = self._schemas.get(name, {})
        found = schema.get("properties") if isinstance(schema, Mapping) else None
        return found if isinstance(found, Mapping) else {}

    def value(self, name: str, argument: str, text: str) -> Any:
        """An argument that was written without quotes: text where the schema says so, else JSON where it is such."""
        schema = self.properties(name).get(argument)
        if isinstance(schema, Mapping) and schema.get("type") == "string":
            return text
        try:
            return parse_json(text)
        except ValueError:
            return {"True": True, "False": False, "None": None}.get(text, text)
