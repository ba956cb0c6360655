"""Networks whose files the converter gets wrong: a registry of its own, kept in ``tests/data/flawed``, an archive per case.

python make.py --registry flawed.py --out FOLDER
python flawed.py FOLDER ../../tests/data/flawed
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import torch
from case import Case, Input
from layers import Fn
from torch import Tensor, nn

SOUND = (Input((1, 8, 180), "normal"),)
GRID = (Input((1, 8, 9, 8), "normal"),)


def _long_kernel() -> nn.Module:
    """As QuartzNet has it: with a dilation the converter does not split a kernel that its registers do not hold."""
    deep = nn.Conv1d(8, 8, 87, padding=86, dilation=2, groups=8)
    return nn.Sequential(deep, nn.Conv1d(8, 12, 1), nn.ReLU())


def _long_deconv() -> nn.Module:
    """Transposed kernels are never split, and their pads overflow as well."""
    return nn.ConvTranspose1d(8, 8, 64, stride=4)


def _silent(gain: float) -> nn.Module:
    """Two channels that no value ever reaches have far larger weights than those that count."""
    first, second = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
    first.weight.data[:] = torch.eye(8)[:, :, None, None]
    first.bias.data[:] = torch.tensor([-100.0] * 2 + [0.0] * 6)
    second.weight.data[:2] *= gain
    return nn.Sequential(first, nn.ReLU(), second)


def _uneven() -> nn.Module:
    """Weights from 1 to 1e-7, biases of one size; the last channel has no weights."""
    layer = nn.Conv2d(8, 16, 3, padding=1)
    layer.weight.data *= 10.0 ** -(torch.arange(16)[:, None, None, None] / 2)
    layer.weight.data[15] = 0
    layer.bias.data[:] = torch.linspace(-1, 1, 16)
    return layer


def _rows() -> nn.Module:
    """As EnCodec has it: of the first of two LSTMs on a skipped path the converter writes one multiplier of each gate,
    and leaves the others to chance, when a reflected border follows."""

    def run(m: nn.ModuleDict, x: Tensor) -> Tensor:
        steps = x.permute(2, 0, 1)
        return m["last"]((m["lstm"](steps)[0] + steps).permute(1, 2, 0))

    last = nn.Conv1d(8, 4, 3, padding=1, padding_mode="reflect")
    return Fn(run, lstm=nn.LSTM(8, 8, 2), last=last)


CASES = {
    case.name: case
    for case in (
        Case("long_kernel", _long_kernel, SOUND, ("rk3588.i8", "rk3576.i8", "rv1103b.i8", "rk3588.fp16")),
        Case("long_deconv", _long_deconv, (Input((1, 8, 20), "normal"),), ("rk3588.i8",)),
        Case("silent_channels", lambda: _silent(1e4), GRID, ("rk3588.i8", "rk3566.i8", "rv1106.i8")),
        Case("uneven_channels", _uneven, GRID, ("rk3588.i8",)),
        Case("lstm_rows", _rows, (Input((1, 8, 3), "normal"),), ("rk3562.i8",)),
    )
}


def keep(folder: Path, archives: Path) -> None:
    """Pack what ``make.py`` left in a folder as the archives of tools/sweep are."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sweep"))
    from pack import Packed, pack

    archives.mkdir(exist_ok=True)
    for case in CASES.values():
        with tempfile.TemporaryDirectory() as one:
            for target in case.targets:
                for suffix in (".rknn", ".npz"):
                    shutil.copy(folder / f"{case.name}.{target}{suffix}", Path(one) / f"{target}{suffix}")
            packed = Packed(case.name, Path(one), "flawed", {}, case.targets)
            print(case.name, pack([packed], archives / f"{case.name}.tar.xz"), "bytes")


if __name__ == "__main__":
    keep(*map(Path, sys.argv[1:]))
