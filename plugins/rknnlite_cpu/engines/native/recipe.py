"""What the native engine's library is made of, and the processors that wheels have it ready for.

Tools that have nothing but Python read this file by itself: it imports nothing of this project's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FLAGS", "FOLDER", "MADE_OF", "VARIANTS", "Variant", "digest", "files", "fitting"]

FOLDER = Path(__file__).parent / "lib"
"""Libraries of a wheel: ``<machine>-linux-gnu/<variant>.so``."""
MADE_OF = "made-of"
"""A file beside them: ``digest`` of what they were compiled from."""
FLAGS = ("-ffp-contract=off", "-falign-loops=32")
"""Products and sums are rounded one by one, as numpy rounds them. -O3 makes larger kernels, no faster ones."""


@dataclass(frozen=True)
class Variant:
    """Processors of one machine that have some instructions in common."""

    name: str
    machine: str
    features: frozenset[str]
    """In the words of Linux's /proc/cpuinfo."""
    zig: str
    """What ziglang's compiler is told."""
    gcc: tuple[str, ...]
    """What others are told."""


_AVX2 = frozenset(["abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "popcnt"])
_AVX512 = frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni", "avx512vbmi"])

VARIANTS = (
    Variant("vnni512", "x86_64", _AVX2 | _AVX512, "x86_64_v4+avx512vnni+avx512vbmi",
            ("-march=x86-64-v4", "-mavx512vnni", "-mavx512vbmi")),
    Variant("vnni", "x86_64", _AVX2 | {"avx_vnni"}, "x86_64_v3+avxvnni", ("-march=x86-64-v3", "-mavxvnni")),
    Variant("avx2", "x86_64", _AVX2, "x86_64_v3", ("-march=x86-64-v3",)),
    Variant("dotprod", "aarch64", frozenset({"asimd", "asimddp"}), "generic+dotprod", ("-march=armv8.2-a+dotprod",)),
    Variant("plain", "aarch64", frozenset({"asimd"}), "generic", ("-march=armv8-a",)),
)  # fmt: skip
"""The fastest of a machine first."""


def files() -> list[Path]:
    """All that a compiler reads."""
    return sorted(Path(__file__).parent.glob("*.[ch]"))


def digest() -> str:
    """SHA-256 of flags and files, as hexadecimal digits: a library made of others is not taken for this one."""
    whole = hashlib.sha256(" ".join(FLAGS).encode())
    for file in files():
        content = file.read_bytes()
        whole.update(f"{file.name} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def fitting(machine: str, features: Collection[str]) -> list[Variant]:
    """Those that a processor can run, the fastest first."""
    return [each for each in VARIANTS if each.machine == machine and each.features.issubset(features)]
