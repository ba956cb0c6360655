"""What ``rknnlite info`` says of the chip's arithmetic."""

from __future__ import annotations

from rknnlite_cpu.silicon.inspection import SiliconInspector

from rknnlite.formats import ModelFile
from tests.support.corpus import genuine


def test_where_a_family_was_measured() -> None:
    for stem, chip in (
        ("conv_1x1.rk3588.i8", "RK3588"),
        ("conv_1x1.rv1106.i8", "RV1103"),
        ("conv_5x5.rk3562.i8", ""),
    ):
        found = SiliconInspector().describe(ModelFile(genuine(stem)), False)
        assert found is not None and found.data == {"silicon": {"measured_on": chip}} and not found.rest
        assert (f"as measured on {chip}" if chip else "by analogy: nobody has measured") in str(
            found.facts[0]
        )


def test_node_by_node() -> None:
    found = SiliconInspector().describe(ModelFile(genuine("norms.rk3588.i8")), True)
    assert found is not None
    left = found.data["silicon"]["left_to_simulator"]
    assert len(left) == 4 and all(one["node"].startswith("exNorm") for one in left)
    assert "as the simulator computes: how the NPU computes this exNorm" in str(found.rest[0])
    whole = SiliconInspector().describe(ModelFile(genuine("conv_1x1.rk3588.i8")), True)
    assert whole is not None and "every node in the integers of its registers" in str(whole.rest[0])
