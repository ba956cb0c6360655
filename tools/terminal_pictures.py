"""Pictures of the terminal for the documentation: what ``top`` and ``chat`` really print, as SVG (needs rich).

    python tools/terminal_pictures.py [docs/images]

Each command runs in a pseudo terminal of 100 columns. ``top`` looks at a board that is made of files.
"""

from __future__ import annotations

import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 100, 30
CLEARED = "\x1b[H\x1b[J"
SUPERFLUOUS = re.compile(r"@font-face \{.*?\}|<!--.*?-->", re.DOTALL)
BOARD = {
    "proc/device-tree/compatible": "vendor,board\0rockchip,rk3588\0",
    "proc/device-tree/model": "Board of files\0",
    "proc/meminfo": "MemTotal: 8000000 kB\nMemFree: 1 kB\nMemAvailable: 6000000 kB\n",
    "sys/kernel/debug/rknpu/version": "RKNPU driver: v0.9.8\n",
    "sys/kernel/debug/rknpu/load": "NPU load:  Core0: 88%, Core1: 71%, Core2: 12%,\n",
    "sys/class/devfreq/fdab0000.npu/cur_freq": "1000000000\n",
    "sys/class/devfreq/fdab0000.npu/max_freq": "1000000000\n",
    "sys/class/devfreq/fdab0000.npu/governor": "rknpu_ondemand\n",
    "sys/class/thermal/thermal_zone0/type": "soc-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "48100\n",
    "sys/class/thermal/thermal_zone6/type": "npu-thermal\n",
    "sys/class/thermal/thermal_zone6/temp": "52600\n",
}


def run(words: Sequence[str], typed: Sequence[str] = ()) -> str:
    """What a command prints on a terminal where somebody types an answer to every ``> ``."""
    child, terminal = pty.fork()
    if child == 0:
        paths = f"{ROOT}:{ROOT / 'plugins'}"
        os.environ.update(
            TERM="xterm-256color",
            COLUMNS=str(COLUMNS),
            LINES=str(ROWS),
            RKNNLITE_BACKEND="cpu",
            PYTHONPATH=paths,
        )
        os.chdir(ROOT / "examples" / "llm_chat")
        os.execv(sys.executable, [sys.executable, "-m", "rknnlite", *words])
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    shown, lines = "", list(typed)
    while chunk := read(terminal):
        shown += chunk
        if lines and shown.endswith("> "):
            time.sleep(0.2)
            os.write(terminal, f"{lines.pop(0)}\n".encode())
    if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        sys.exit(f"terminal_pictures: rknnlite {' '.join(words)} ended with {status}:\n{shown}")
    return shown.replace("\r\n", "\n").rpartition(CLEARED)[2]


def read(terminal: int) -> str:
    """The next characters; empty when the command has ended."""
    try:
        if not select.select([terminal], [], [], 60)[0]:
            sys.exit("terminal_pictures: nothing for 60 s")
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:  # how Linux says that the other end is closed
        return ""


def draw(command: str, shown: str, file: Path) -> None:
    """The command line and its answer; the picture fetches no font."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        console.print(Text(f"$ {command}\n", style="bold"), Text.from_ansi(shown.rstrip()), sep="")
        picture = SUPERFLUOUS.sub("", console.export_svg(title="", theme=MONOKAI, unique_id=file.stem))
    file.write_text(
        "\n".join(line.rstrip() for line in picture.splitlines() if line.strip()) + "\n", encoding="utf-8"
    )


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as board:
        for name, text in BOARD.items():
            (Path(board) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(board) / name).write_text(text, encoding="utf-8")
        draw(
            "rknnlite top",
            run(["top", "--count", "2", "--interval", "1", "--root", board]),
            folder / "top.svg",
        )
    questions = ("What is 47 + 38?", "What day comes after Sunday?", "/quit")
    draw("rknnlite chat models/tiny", run(["chat", "models/tiny"], questions), folder / "chat.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs" / "images")
