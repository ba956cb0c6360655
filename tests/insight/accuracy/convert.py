"""Makes ``tests/data/faults.tar.xz`` with the vendor's converter: ``PYTHON -m tests.insight.accuracy.convert``.

PYTHON is that of an environment with rknn-toolkit2. With ``--analysis`` the converter's own accuracy analysis is printed, too.
"""

from __future__ import annotations

import lzma
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .networks import FAULTS, Fault, nchw

__all__ = ["main"]

ARCHIVE = Path(__file__).parents[2] / "data" / "faults.tar.xz"


def main() -> None:
    """Convert all, or those that are named; the archive is written where all are."""
    analyse = "--analysis" in sys.argv
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for fault in FAULTS:
            if not names or fault.name in names:
                _convert(fault, folder, analyse)
        if not names and not analyse:
            with tarfile.open(ARCHIVE, "w:xz", preset=9 | lzma.PRESET_EXTREME) as archive:
                for path in sorted(folder.glob("*.rknn")):
                    about = tarfile.TarInfo(path.name)
                    about.size = path.stat().st_size
                    with path.open("rb") as content:
                        archive.addfile(about, content)


def _convert(fault: Fault, folder: Path, analyse: bool) -> None:
    import onnx
    from rknn.api import RKNN

    onnx.save(fault.build(fault), str(folder / f"{fault.name}.onnx"))
    files = _written(fault.calibrated_with(), folder, "calibration")
    listing = folder / "dataset.txt"
    listing.write_text("\n".join(files) + "\n")
    rknn: Any = RKNN(verbose=False)
    mean, std = fault.told
    rknn.config(
        target_platform=fault.platform, mean_values=[list(mean)], std_values=[list(std)], **fault.config
    )
    done = [
        rknn.load_onnx(str(folder / f"{fault.name}.onnx")),
        rknn.build(do_quantization=fault.quantised, dataset=str(listing) if fault.quantised else None),
        rknn.export_rknn(str(folder / f"{fault.name}.rknn")),
    ]
    if any(done):
        raise SystemExit(f"{fault.name}: the converter refused it")
    if analyse:
        print(f"== {fault.name}")
        rknn.init_runtime()
        rknn.accuracy_analysis(
            inputs=_written([nchw(fault.samples()[0])], folder, "sample"), output_dir=str(folder / "snapshot")
        )
        print((folder / "snapshot" / "error_analysis.txt").read_text())
    rknn.release()


def _written(arrays: list[Any], folder: Path, stem: str) -> list[str]:
    paths = [str(folder / f"{stem}{number}.npy") for number in range(len(arrays))]
    for path, array in zip(paths, arrays):
        np.save(path, array)
    return paths


if __name__ == "__main__":
    main()
