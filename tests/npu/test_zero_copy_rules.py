"""The rules of zero-copy memory are those of every backend: the tests of the CPU reference, on the machine."""

from __future__ import annotations

from typing import Any

import pytest
from rknnlite_npu.backend import MachineBackend

from rknnlite.formats import ModelFile
from rknnlite.spi import Context, OpenOptions
from tests.zerocopy import test_cpu as rules
from tests.zerocopy.test_cpu import (  # noqa: F401  collected here, with their fixtures
    by_hand,
    context,
    expected,
    test_a_batch_lies_item_after_item,
    test_a_closed_context_closes_its_memory,
    test_a_layout_says_nothing_below_rank_four,
    test_a_model_without_weights_takes_them_from_its_master,
    test_closed_memory,
    test_contexts_that_flush_are_not_slowed_by_others,
    test_descriptors_that_do_not_hold_enough,
    test_everything_has_to_be_bound,
    test_flags,
    test_imported_memory_is_synced_like_any,
    test_memory_begins_at_whole_elements,
    test_memory_is_shared_by_descriptor,
    test_memory_of_another_context,
    test_memory_outside_comes_before_the_run,
    test_memory_that_is_written_during_a_run,
    test_models_that_run_in_turn_share_internal_memory,
    test_one_context_reads_what_another_wrote_without_a_sync,
    test_outputs_in_other_types_and_layouts,
    test_paths_do_not_mix,
    test_rows_are_padded,
    test_shapes_switch_and_memory_is_bound_anew,
    test_sizes_that_no_memory_has,
    test_sync_directions,
    test_what_does_not_fit_an_input,
    test_what_does_not_fit_an_output,
    test_what_is_no_descriptor,
    test_what_is_not_synced_is_not_seen,
)


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What those tests open is opened on the machine."""

    def opened(source: Any, **options: Any) -> Context:
        model = source if isinstance(source, ModelFile) else ModelFile(source)
        return MachineBackend().open(model, OpenOptions(**options))

    monkeypatch.setattr(rules, "open_cpu", opened)
