"""Whatever a program passes in, the face answers 0 or -1; nothing raises, and the next run is well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from rknnlite_llm import Package

from rknn3lite.api import RKNN3Lite
from rknnlite._faces.log import FaceLog
from rknnlite.errors import RknnError
from rknnlite.rknn3._args import _KNOWN
from tests.rknn3.conftest import ARGS, Talk
from tests.support.corpus import genuine
from tests.support.examples import examples

Anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-2, 300), st.floats(), st.text(max_size=8),
    st.binary(max_size=8), st.lists(st.integers(-1, 320), max_size=4), st.just(object()), st.dictionaries(
        st.text(max_size=3), st.integers(), max_size=2
    ),
)  # fmt: skip
Arrays = arrays.arrays(
    st.sampled_from([np.float16, np.float32, np.int8, np.int64, np.uint8, np.bool_]),
    arrays.array_shapes(min_dims=0, max_dims=4, max_side=4),
)


class BadRepr:
    """An object that not even an error message can show."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr today")


@pytest.fixture(autouse=True)
def foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback in the log is for what nobody foresaw; here everything must be."""

    def tell(log: FaceLog, headline: str, error: BaseException, code: str | None = None) -> None:
        assert isinstance(error, RknnError), f"{headline} {error!r}"

    monkeypatch.setattr(FaceLog, "tell", tell)


@pytest.fixture(scope="module")
def face(package: Package) -> Iterator[tuple[RKNN3Lite, Talk]]:
    talk = Talk(package)
    rknn = RKNN3Lite(llm_mode=True)
    rknn.rknn_log.logger.setLevel(100)
    rknn.load_rknn(package.model, package.weight)
    assert rknn.init_runtime("rk1820", 0xFF, [ARGS], talk.callback()) == 0
    yield rknn, talk
    rknn.release()


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(args=st.one_of(Anything, st.dictionaries(st.sampled_from(sorted(_KNOWN)), Anything, max_size=4)))
@example(args={"top_p": 10**400})
def test_arguments_of_a_session(face: tuple[RKNN3Lite, Talk], args: Any) -> None:
    rknn, talk = face
    assert rknn.init_llm_session(args, talk.callback(), session_index=1) in (0, -1)
    assert rknn.set_llm_param(args) in (0, -1)
    assert rknn.init_llm_session([ARGS], talk.callback()) == 0


@pytest.mark.parametrize(
    "args", [BadRepr(), {"top_k": BadRepr()}, {"top_p": BadRepr()}, {"logits_name": BadRepr()}]
)
def test_what_no_message_can_show(face: tuple[RKNN3Lite, Talk], args: Any) -> None:
    """Hypothesis shows its examples, so these are no examples."""
    rknn, talk = face
    assert rknn.init_llm_session(args, talk.callback(), session_index=1) == rknn.set_llm_param(args) == -1
    assert rknn.init_llm_session([ARGS], BadRepr()) == rknn.set_kvcache_policy(1, BadRepr()) == -1
    assert rknn.init_llm_session([ARGS], None, BadRepr()) == -1
    assert rknn.init_llm_session([ARGS], talk.callback()) == 0


@settings(max_examples=examples(100), deadline=None)
@given(
    turn=st.fixed_dictionaries(
        {},
        optional={
            "prompt": Anything, "tokens": st.one_of(Anything, Arrays), "embeds": st.one_of(Anything, Arrays),
            "inputs": Anything, "keep_history": Anything, "role": Anything, "enable_thinking": Anything,
        },
    ),
    limit=st.one_of(st.none(), st.integers(-2, 3), st.text(max_size=2)),
)  # fmt: skip
@pytest.mark.usefixtures("extras")
def test_a_turn(face: tuple[RKNN3Lite, Talk], turn: dict[str, Any], limit: Any) -> None:
    rknn, _ = face
    code, figures = rknn.session_run(**turn, max_new_tokens=limit)
    assert (code, len(figures)) in ((0, 4), (-1, 0))
    rknn.clear_kvcache()
    assert rknn.session_run(tokens=[1], max_new_tokens=1)[0] == 0


@settings(max_examples=examples(100), deadline=None)
@given(value=Anything, other=Anything)
def test_settings(face: tuple[RKNN3Lite, Talk], value: Any, other: Any) -> None:
    rknn, _ = face
    assert rknn.set_chat_template(value, other, "") in (0, -1)
    assert rknn.set_function_tools(value) in (0, -1)
    assert rknn.set_kvcache_policy(value) in (0, -1) and rknn.clear_kvcache(value) in (0, -1)
    assert rknn.set_kvcache_policy(1, other) in (0, -1)
    assert (
        rknn.load_kvcache(kvcache_data=value if isinstance(value, (bytes, list)) else None, size=other) == -1
    )
    assert rknn.load_kvcache(kvcache_path=value if isinstance(value, (str, float)) else None) == -1
    rknn.rknn3_query(value, other)
    assert rknn.create_output_tensors(value)[1] in (0, 1, 2)
    assert rknn.set_function_tools([]) == rknn.set_kvcache_policy(0) == 0
    assert rknn.set_chat_template("", "", "") == 0


@settings(max_examples=examples(100), deadline=None)
@given(inputs=st.one_of(Anything, Arrays, st.lists(Arrays, max_size=2)), data_format=Anything)
def test_inputs_of_a_network(network: RKNN3Lite, inputs: Any, data_format: Any) -> None:
    assert network.inference(inputs, data_format) is None or isinstance(inputs, (list, np.ndarray))


@pytest.fixture(scope="module")
def network() -> Iterator[RKNN3Lite]:
    rknn = RKNN3Lite()
    rknn.rknn_log.logger.setLevel(100)
    rknn.load_rknn(genuine("conv_relu.rk3588.i8"), None)
    assert rknn.init_runtime("rk1820", 1) == 0
    yield rknn
    rknn.release()


@settings(max_examples=examples(100), deadline=None)
@given(values=st.lists(Anything, min_size=5, max_size=5))
@example(values=[None, False, None, False, None])
def test_opening(package: Package, values: list[Any]) -> None:
    rknn = RKNN3Lite(llm_mode=True)
    rknn.rknn_log.logger.setLevel(100)
    assert rknn.load_rknn(values[0], values[1]) == -1
    rknn.load_rknn(package.model, package.weight)
    assert rknn.init_runtime(values[0], values[1], values[2], None, values[3], values[4]) in (0, -1)
    rknn.release()
