"""Choosing tokens: rules one by one, then statistics."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from rknnlite_llm.sampling import Sampler

from rknnlite.errors import ParamInvalid
from rknnlite.spi.llm import SamplingParams
from tests.support.sampling_chain import SETTINGS, paired, total_variation, wanted

LOGITS = np.log(np.array([0.4, 0.3, 0.2, 0.1], np.float32))
NONE = np.array([], int)


def _shares(params: SamplingParams, logits: np.ndarray = LOGITS, draws: int = 4000) -> np.ndarray:
    sampler = Sampler(params)
    drawn = [sampler.choose(logits, NONE, {}) for _ in range(draws)]
    return np.bincount(drawn, minlength=len(logits)) / draws


def test_defaults_are_greedy() -> None:
    assert _shares(SamplingParams(), draws=10)[0] == 1


def test_draws_follow_the_probabilities() -> None:
    assert np.abs(_shares(SamplingParams(top_k=0, seed=1)) - [0.4, 0.3, 0.2, 0.1]).max() < 0.03


def test_top_k_leaves_the_best_and_renormalises() -> None:
    assert np.abs(_shares(SamplingParams(top_k=2, seed=1)) - [4 / 7, 3 / 7, 0, 0]).max() < 0.03


@pytest.mark.parametrize(("top_p", "left"), [(0.3, 1), (0.5, 2), (0.75, 3), (0.95, 4)])
def test_top_p_leaves_the_fewest_that_hold_the_mass(top_p: float, left: int) -> None:
    shares = _shares(SamplingParams(top_k=0, top_p=top_p, seed=2))
    assert np.count_nonzero(shares) == left
    wanted = np.array([0.4, 0.3, 0.2, 0.1])[:left]
    assert np.abs(shares[:left] - wanted / wanted.sum()).max() < 0.03


def test_temperature_sharpens_and_flattens() -> None:
    cold, hot = (_shares(SamplingParams(top_k=0, temperature=t, seed=3)) for t in (0.25, 4.0))
    assert cold[0] > 0.7
    assert hot[0] < 0.33
    assert _shares(SamplingParams(top_k=0, temperature=0.0), draws=10)[0] == 1


def test_same_seed_same_tokens() -> None:
    one, two, other = (
        [
            Sampler(SamplingParams(top_k=0, seed=seed)).choose(np.zeros(1000, np.float32), NONE, {})
            for _ in range(1)
        ]
        for seed in (5, 5, 6)
    )
    assert one == two != other


def test_repeat_penalty_works_on_both_signs() -> None:
    sampler = Sampler(SamplingParams(repeat_penalty=2.0))
    assert sampler.choose(np.array([1.0, 0.6, 0.0], np.float32), np.array([0]), {}) == 1
    assert sampler.choose(np.array([-1.0, -1.5, -9.0], np.float32), np.array([0]), {}) == 1


def test_frequency_penalty_grows_and_presence_penalty_does_not() -> None:
    logits = np.array([3.0, 2.0, 0.0], np.float32)
    frequency, presence = (
        Sampler(SamplingParams(frequency_penalty=0.6)),
        Sampler(SamplingParams(presence_penalty=0.6)),
    )
    assert [frequency.choose(logits, NONE, {0: n}) for n in (1, 2)] == [0, 1]
    assert [presence.choose(logits, NONE, {0: n}) for n in (1, 9)] == [0, 0]


def test_the_logits_of_the_caller_stay_as_they_are() -> None:
    logits = LOGITS.copy()
    Sampler(SamplingParams(repeat_penalty=2.0, top_k=0)).choose(logits, np.array([0, 1]), {})
    assert np.array_equal(logits, LOGITS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"temperature": "hot"},
        {"top_p": 1.5},
        {"top_k": 2.5},
        {"repeat_penalty": 0.0},
        {"seed": -1},
        {"seed": 0.5},
    ],
)
def test_meaningless_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParamInvalid, match=next(iter(wrong))):
        Sampler(SamplingParams(**wrong))


@pytest.mark.slow
@pytest.mark.parametrize("pair", list(itertools.combinations(SETTINGS, 2)), ids="-".join)
def test_every_pair_of_settings_draws_as_the_chain_of_its_peers(pair: tuple[str, str]) -> None:
    params, logits = paired(*pair), np.random.default_rng(4).normal(0, 1.5, 24).astype(np.float32)
    seen, counts = [0, 2, 5, 9, 13], {2: 1, 9: 3}
    sampler, drawn = Sampler(params), np.zeros(len(logits))
    for _ in range(20_000):
        drawn[sampler.choose(logits, np.array(seen), counts)] += 1
    chances = wanted(params, logits, seen, counts)
    assert not drawn[chances == 0].any()
    assert total_variation(drawn / drawn.sum(), chances) < 0.02
