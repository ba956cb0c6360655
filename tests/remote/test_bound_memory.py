"""The tests of the zero-copy path on the CPU reference, on a board from afar: memory is here, its bytes go there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.zerocopy import test_cpu
from tests.zerocopy.test_cpu import *  # noqa: F403

pytestmark = pytest.mark.slow

# Memory descriptors cannot cross a network, nor does a board see what is not synced (test_refusals.py).
del test_memory_is_shared_by_descriptor, test_memory_begins_at_whole_elements  # noqa: F821
del test_memory_of_another_context, test_descriptors_that_do_not_hold_enough  # noqa: F821
del test_what_is_no_descriptor, test_what_is_not_synced_is_not_seen  # noqa: F821
del test_imported_memory_is_synced_like_any, test_one_context_reads_what_another_wrote_without_a_sync  # noqa: F821
# Weights and internal tensors lie on the board.
del test_memory_outside_comes_before_the_run, test_models_that_run_in_turn_share_internal_memory  # noqa: F821
del test_a_model_without_weights_takes_them_from_its_master, test_who_cannot_be_a_master  # noqa: F821
# These look into the CPU reference.
del test_contexts_that_flush_are_not_slowed_by_others  # noqa: F821
del test_elements_pass_through, test_memory_that_is_written_during_a_run  # noqa: F821


@pytest.fixture(autouse=True)
def there(opening_there: Any) -> None:
    opening_there(test_cpu)
