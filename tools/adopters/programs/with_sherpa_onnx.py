"""sherpa-onnx's wheels: its RKNN provider needs a build of one's own, which links librknnrt.so."""

from __future__ import annotations

from importlib import metadata

from direct import demand, seen

found = {
    file.name: file.locate().read_bytes()
    for name in ("sherpa-onnx", "sherpa-onnx-core")
    for file in metadata.files(name) or []
    if ".so" in file.name
}
demand(found, "it has no libraries")
linked = [name for name, data in found.items() if b"librknnrt.so" in data]
demand(not linked, f"{', '.join(linked)} link librknnrt.so now")
demand(
    any(b"SHERPA_ONNX_ENABLE_RKNN=ON" in data for data in found.values()),
    "it no longer says how to build it with RKNN",
)
seen(
    f"none of {len(found)} libraries is linked with librknnrt.so; asked for provider rknn it says to rebuild it"
)
