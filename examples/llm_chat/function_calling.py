#!/usr/bin/env python3
"""Function calling: the model asks for a tool, the program runs it, the model puts the result into words."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

from opening import ask, chat
from questions import TOOLS

REQUESTS = ("What is the weather in Lisbon?", "Turn off the light in the kitchen.", "Wake me in 25 minutes.")
CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)


def get_weather(city: str) -> dict[str, Any]:
    """A weather station would be asked here."""
    return {"sky": "rainy", "degrees": len(city) + 8}


def main() -> None:
    with chat() as rknn:
        rknn.set_function_tools(TOOLS)
        for request in REQUESTS:
            answer = ask(rknn, request)
            print(f"user: {request}\nassistant: {answer}")
            found = CALL.search(answer)
            call = json.loads(found.group(1)) if found else {}
            if call.get("name") == "get_weather":
                result = json.dumps(get_weather(**call["arguments"]))
                print(f"tool: {result}\nassistant: {ask(rknn, result, role='tool')}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
