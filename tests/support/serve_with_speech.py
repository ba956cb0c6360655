"""``rknnlite serve`` with a speech model over stand-ins for its networks: ``python -m tests.support.serve_with_speech ARGUMENTS``.

``--speech DIR/whisper`` says ``SAID``, whatever it hears.
"""

from __future__ import annotations

import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

__all__ = ["SAID"]

SAID = "one two "


def main() -> int:
    """The command, with another ``open_speech``."""
    import rknnlite_server.served_speech as served
    from rknnlite_speech.transcribing import Transcriber

    from rknnlite.cli.program import main as command
    from tests.speech.conftest import spelling_pair, whisper_vocabulary

    with tempfile.TemporaryDirectory() as folder:
        vocabulary = whisper_vocabulary(Path(folder))

        def opened(path: Path, **options: Any) -> Any:
            pair = spelling_pair(lambda mel: list(SAID.encode()), language="de")
            for stand_in in (pair.encoder, pair.decoder):
                stand_in.runs = deque(
                    maxlen=0
                )  # what they were given is not kept: the memory of the server is looked at
            return Transcriber(pair, vocabulary)

        served.open_speech = opened
        return int(command(["serve", *sys.argv[1:]]) or 0)


if __name__ == "__main__":
    sys.exit(main())
