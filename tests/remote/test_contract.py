"""The tests of contexts on the CPU reference, on a board from afar: what holds here holds there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cpu import test_context
from tests.cpu.test_context import *  # noqa: F403

# These look into the CPU reference: how it feeds a graph, its name, the words in which it refuses NaN.
del test_pass_through_takes_what_quantisation_would_give  # noqa: F821
del test_float32_passes_through_to_float16  # noqa: F821
del test_pass_through_in_the_native_layout  # noqa: F821
del test_zero_point_and_scale_of_pass_through  # noqa: F821
del test_what_a_context_says_about_itself  # noqa: F821
del test_nan_and_infinity  # noqa: F821
del test_an_alarm_that_computes_neither_hangs_nor_changes_results  # noqa: F821


@pytest.fixture(autouse=True)
def there(opening_there: Any) -> None:
    opening_there(test_context)
