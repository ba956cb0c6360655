"""Every family of language models against what transformers computes of a small random model (stored answers)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import EmbedTable, Package, export_llm, open_llm
from rknnlite_llm.container.description import check_describable, read_llm
from rknnlite_llm.container.families import FAMILIES
from rknnlite_llm.hf_config import architecture

from rknnlite.errors import InputInvalid, ModelInvalid, ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import (
    EmbedInput,
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    TokenInput,
    VocabInfo,
)
from tests.llm.family_goldens import CASES, DATA, RANDOM, export_case, known_case, write_family
from tests.support.corpus import ROOT

pytestmark = pytest.mark.slow

NEVER_ENDS = LlmParams(vocab=VocabInfo(ignore_eos_token=True))
DECODERS = [case.name for case in CASES if not (case.embeds or case.scores)]
SCORERS = [case.name for case in CASES if case.scores]
EMBEDDERS = {case.name: case.embeds for case in CASES if case.embeds}
CHUNK = 7


class Talk:
    """A session, what it said and the logits it showed."""

    def __init__(self, context: LlmContext, package: Package) -> None:
        self.said: list[int] = []
        self.logits: list[np.ndarray] = []
        self.table = table_of(context, package)
        callbacks = LlmCallbacks(
            lambda result, state: self.said.extend(result.token_ids),
            embed=self.table,
            output=lambda outputs, state: self.logits.append(outputs[0].data[0].copy()),
            outputs=(0,),
        )
        self.session = context.session(NEVER_ENDS, callbacks)

    def run(self, ids: np.ndarray, count: int, keep: bool = False) -> list[int]:
        self.said.clear()
        self.logits.clear()
        self.session.run(
            TokenInput(ids.astype(np.int64)), InferParams(max_new_tokens=count, keep_history=keep)
        )
        return list(self.said)


def table_of(context: LlmContext, package: Package) -> EmbedTable:
    return EmbedTable(package.embed, context.config.vocab_size, context.config.embedding_dim)


def exported(name: str, folder: Path, **options: Any) -> tuple[dict[str, np.ndarray], Package]:
    golden = write_family(name, folder / "hf")
    return golden, export_llm(folder / "hf", folder / "p", **{"weights": "f32", **options})


@pytest.mark.parametrize("name", DECODERS)
def test_a_family_says_what_transformers_says(name: str, tmp_path: Path) -> None:
    says_what_transformers_says(*exported(name, tmp_path), tmp_path)


@pytest.mark.parametrize("name", RANDOM)
def test_any_shape_with_any_weights_says_what_transformers_says(name: str, tmp_path: Path) -> None:
    golden = write_family(name, tmp_path / "hf")
    package = export_case(known_case(name), tmp_path / "hf", tmp_path / "ours")
    says_what_transformers_says(golden, package, tmp_path)


def says_what_transformers_says(golden: dict[str, np.ndarray], package: Package, tmp_path: Path) -> None:
    """Logits of a prompt in pieces, greedy tokens, a second turn, and the same behind a saved cache."""
    first, greedy, again = golden["first"], golden["greedy"].tolist(), golden["again"].tolist()
    with open_llm(package.model) as context:
        whole = Talk(context, package)
        whole.session.run(TokenInput(first.astype(np.int64)), InferParams(prefill_only=True))
        assert np.abs(whole.logits[-1] - golden["logits"][-1]).max() < 1e-3
    with open_llm(package.model, prefill_chunk=CHUNK) as context:
        talk = Talk(context, package)
        assert talk.run(first, len(greedy)) == greedy
        ends = [*range(CHUNK - 1, len(first) - 1, CHUNK), len(first) - 1]
        for row, wanted in zip(golden["rows"], golden["logits"]):
            if row in ends:
                assert np.abs(talk.logits[ends.index(row)] - wanted).max() < 1e-3
        talk.session.save_kvcache(str(tmp_path / "kv"))
        assert talk.run(golden["second"], len(again), keep=True) == again
        other = Talk(context, package)
        other.session.load_kvcache(str(tmp_path / "kv"))
        assert other.run(golden["second"], 8, keep=True) == again[:8]


@pytest.mark.parametrize("name", EMBEDDERS)
def test_a_family_embeds_as_transformers_does(name: str, tmp_path: Path) -> None:
    golden, package = exported(name, tmp_path, pooling=EMBEDDERS[name])
    texts = [golden[f"text{i}"] for i in range(4)]
    kept = {"mean": 0, "cls": 1, "last": 2}[EMBEDDERS[name]]
    wanted = np.array([golden[f"hidden{i}"][kept] for i in range(4)])
    wanted /= np.linalg.norm(wanted, axis=1)[:, None]
    with open_llm(package.model, prefill_chunk=CHUNK) as context:
        found = context.embed(texts, table_of(context, package))
        alone = [context.embed([text], table_of(context, package))[0] for text in texts]
    assert np.abs(found - wanted).max() < 1e-5
    assert np.abs(alone - wanted).max() < 1e-5


@pytest.mark.parametrize("name", SCORERS)
def test_a_family_scores_as_transformers_does(name: str, tmp_path: Path) -> None:
    golden, package = exported(name, tmp_path)
    texts = [golden[f"text{i}"] for i in range(4)]
    with open_llm(package.model, prefill_chunk=CHUNK) as context:
        found = context.score(texts, [len(ids) // 2 for ids in texts], table_of(context, package))
        with pytest.raises(InputInvalid, match="3 places"):
            context.score(texts, [0, 0, 0], table_of(context, package))
        with pytest.raises(ModelUnsupported, match="gives scores and generates no text"):
            Talk(context, package)
    assert np.abs(found - golden["scores"]).max() < 1e-4


def test_a_model_of_text_gives_no_scores(tmp_path: Path) -> None:
    golden, package = exported("qwen2", tmp_path)
    with open_llm(package.model) as context, pytest.raises(ModelUnsupported, match="gives no scores"):
        context.score([golden["first"]], [1], table_of(context, package))


def test_yes_or_no_is_what_the_logits_say(tmp_path: Path) -> None:
    """As Qwen3-Reranker is used: the share of one token's probability in that of two, behind the last token."""
    from rknnlite_llm.reranking import yes_or_no

    golden, package = exported("qwen3", tmp_path)
    logits = golden["logits"][-1].astype(np.float64)
    yes, no = 17, int(logits.argmax())
    wanted = np.exp(logits[yes]) / (np.exp(logits[yes]) + np.exp(logits[no]))
    with open_llm(package.model) as context:
        found = yes_or_no(
            context, table_of(context, package), [golden["first"], golden["first"][:9]], yes, no
        )
        other = yes_or_no(context, table_of(context, package), [golden["first"]], no, yes)
    assert abs(found[0] - wanted) < 1e-5 and abs(other[0] - (1 - wanted)) < 1e-5


def test_every_family_has_a_case() -> None:
    goldens = [np.load(DATA / f"{case.name}.npz")["config"] for case in CASES]
    models = {architecture(json.loads(str(config))).family for config in goldens}
    media = (DATA.parent / "media").glob(
        "[!rw]*.npz"
    )  # those of whole models and of the resampler name no other
    described = [json.loads(str(np.load(path)["config"])) for path in media]
    models |= {architecture(config).family for config in described}
    assert models == set(FAMILIES)
    assert len(CASES) >= 27


def test_a_package_says_what_earlier_programs_do_not_know(tmp_path: Path) -> None:
    """Those read version 1 only; a window that they did not see would be a wrong number without a word."""
    versions = {}
    for name in ("qwen2", "llama-3", "qwen2-window", "qwen2-yarn", "gemma2"):
        _, package = exported(name, tmp_path / name)
        versions[name] = int.from_bytes(package.model.read_bytes()[8:12], "little")
    assert versions == {"qwen2": 1, "llama-3": 1, "qwen2-window": 2, "qwen2-yarn": 2, "gemma2": 2}


@pytest.mark.parametrize("name", ["gemma3", "qwen3-moe", "lfm2", "phi4-mini"])
def test_what_a_package_says_is_what_was_exported(name: str, tmp_path: Path) -> None:
    golden, package = exported(name, tmp_path)
    assert read_llm(ModelFile(package.model)).arch == architecture(json.loads(str(golden["config"])))


@pytest.mark.parametrize(
    ("name", "changes", "match"),
    [
        ("qwen2", {"use_new_attention": True}, "use_new_attention is True"),
        ("qwen2", {"use_new_attention": False}, "use_new_attention is False"),
        ("llama-3", {"quantization_config": {"bits": 4}}, "quantization_config"),
        ("llama-3", {"pretraining_tp": 2}, "pretraining_tp is 2"),
        ("cohere", {"use_qk_norm": True}, "use_qk_norm is True"),
        ("stablelm", {"qk_layernorm": True}, "qk_layernorm is True"),
        ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention is True"),
        ("gemma2", {"hidden_activation": "relu"}, "'relu' of a gemma2 model"),
        ("olmoe", {"clip_qkv": 8.0}, "clip_qkv is 8.0"),
        ("mistral", {"sliding_window": ...}, "sliding_window"),
        ("ministral", {"layer_types": ["chunked_attention"] * 4}, "layer_types"),
        ("qwen2-yarn", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
         "beta_mid": 2}}, "rope_parameters: beta_mid is 2"),
        ("phi3-128k", {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.0] * 8,
         "short_mscale": 1.2}}, "short_mscale is 1.2"),
        ("llama-3", {"rope_parameters": {"rope_type": "proportional"}}, "'proportional'"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_by_name(
    name: str, changes: dict, match: str, tmp_path: Path
) -> None:
    write_family(name, tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))
    with pytest.raises(ModelUnsupported, match=match):
        export_llm(tmp_path / "hf", tmp_path / "p")


@pytest.mark.parametrize(
    ("name", "more", "wrong"),
    [
        (
            "phi4-mini",
            {"full_attn_mod": 1, "interpolate_factor": 1, "lm_head_bias": False},
            {"interpolate_factor": 2},
        ),
        (
            "lfm2",
            {"block_mlp_init_scale": 1.0, "num_heads": 6, "theta": 1e6, "use_pos_enc": True},
            {"theta": 2e6},
        ),
        (
            "smollm2",
            {"is_llama_config": True, "rope_interleaved": False, "pretraining_tp": 1},
            {"rope_interleaved": True},
        ),
        ("gemma3", {"cache_implementation": "hybrid", "attn_logit_softcapping": None}, {"alibi": True}),
    ],
)
def test_fields_of_published_files_are_known(name: str, more: dict, wrong: dict) -> None:
    """They change nothing with the values that published models have, and are refused with others."""
    config = json.loads(str(np.load(DATA / f"{name}.npz")["config"]))
    assert architecture({**config, **more}) == architecture(config)
    with pytest.raises(ModelUnsupported, match=f"{next(iter(wrong))} is"):
        architecture({**config, **wrong})


def test_a_tensor_that_nobody_computes_is_refused(tmp_path: Path) -> None:
    """The model has biases and its config.json does not say so."""
    write_family("llama-linear", tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    config = {**json.loads(path.read_text()), "attention_bias": False, "mlp_bias": False}
    path.write_text(json.dumps(config))
    with pytest.raises(
        ModelUnsupported, match=r"tensors of layers .* first is model.layers.0.mlp.down_proj.bias"
    ):
        export_llm(tmp_path / "hf", tmp_path / "p")


def test_a_lost_longrope_factor_is_an_error(tmp_path: Path) -> None:
    write_family("phi3-128k", tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    config = json.loads(path.read_text())
    config["rope_parameters"]["long_factor"].pop()
    path.write_text(json.dumps(config))
    with pytest.raises(ModelInvalid, match="not 8 numbers"):
        export_llm(tmp_path / "hf", tmp_path / "p")


@pytest.mark.parametrize("name", ["mistral", "gemma2", "exaone4", "lfm2"])
@pytest.mark.parametrize("chunk", [1, 5])
def test_windows_are_right_when_old_tokens_are_dropped(name: str, chunk: int, tmp_path: Path) -> None:
    """A ring longer than what layers see (windows of 24, or 2 tokens): nothing that is dropped was seen in layer after layer."""
    golden, package = exported(name, tmp_path)
    ids = golden["first"].astype(np.int64)
    reach = 128
    with open_llm(package.model, prefill_chunk=chunk) as context:
        for size in (reach, 1024):
            params = LlmParams(max_context_len=size, vocab=VocabInfo(ignore_eos_token=True))
            shown: list[np.ndarray] = []
            callbacks = LlmCallbacks(
                embed=table_of(context, package),
                output=lambda outputs, state: shown.append(outputs[0].data[0].copy()),  # noqa: B023
                outputs=(0,),
            )
            with context.session(params, callbacks) as session:
                session.run(TokenInput(ids[:100]), InferParams(max_new_tokens=1))
                session.run(TokenInput(ids[100:]), InferParams(max_new_tokens=1, keep_history=True))
            if size == reach:
                ring = shown[-1]
    windowed = name == "mistral"  # others have layers that see everything, and so see less now
    assert (np.abs(ring - shown[-1]).max() < 1e-3) == windowed


def test_embeddings_cannot_be_computed_again_behind_a_border(tmp_path: Path) -> None:
    golden, package = exported("phi3-128k", tmp_path)
    ids = golden["first"].astype(np.int64)
    with open_llm(package.model) as context:
        talk = Talk(context, package)
        talk.session.run(EmbedInput(talk.table(ids).astype(np.float32)), InferParams(max_new_tokens=4))
        with pytest.raises(InputInvalid, match="beyond 96 tokens"):
            talk.session.run(TokenInput(ids), InferParams(max_new_tokens=4, keep_history=True))


def test_a_shorter_conversation_forgets_that_the_last_one_was_long(tmp_path: Path) -> None:
    golden, package = exported("phi3-128k", tmp_path)
    first, greedy = golden["first"], golden["greedy"].tolist()
    with open_llm(package.model) as context:
        talk = Talk(context, package)
        talk.run(np.concatenate([first, golden["greedy"]]), 4)
        assert talk.run(first, 24) == greedy[:24]


def test_experts_in_narrow_weights_stay_close(tmp_path: Path) -> None:
    golden, package = exported("mixtral", tmp_path, weights="f16")
    with open_llm(package.model) as context:
        talk = Talk(context, package)
        talk.run(golden["first"], 1)
    assert 0 < np.abs(talk.logits[0] - golden["logits"][-1]).max() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["llm_families", "llm_media"])
def test_a_comparison_of_nothing_is_refused(tool: str) -> None:
    """It would write a table without rows, and say that all agree."""
    if not (ROOT / "tools" / tool).exists():
        pytest.skip("an installed package has no tools")
    done = subprocess.run(
        [sys.executable, "-m", f"tools.{tool}", "qwen3", "nonsense"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "nonsense; there are qwen" in done.stderr


@pytest.mark.parametrize(("weights", "least"), [("w8", 0.999), ("w4", 0.95)])
@pytest.mark.parametrize("name", ["qwen2", "falcon"])
def test_integers_of_widths_that_are_no_multiple_of_a_group(
    name: str, weights: str, least: float, tmp_path: Path
) -> None:
    """48 hidden channels in groups of 32: the last group is half empty."""
    golden, package = exported(name, tmp_path, weights=weights)
    with open_llm(package.model) as context:
        talk = Talk(context, package)
        talk.run(golden["first"], 1)
    assert np.corrcoef(talk.logits[0], golden["logits"][-1])[0, 1] > least


def test_gemma_4_says_its_heads_once_or_layer_by_layer() -> None:
    """Published files have ``global_head_dim``, saved ones ``per_layer_config``; what is not computed is named."""
    saved = json.loads(str(np.load(DATA / "gemma4.npz")["config"]))
    once = {key: value for key, value in saved.items() if key != "per_layer_config"}
    once |= {"global_head_dim": 24, "num_global_key_value_heads": 1}
    arch = architecture(saved)
    assert architecture(once) == arch
    assert [(arch.of_layer(i).head_dim, arch.of_layer(i).kv_heads) for i in range(4)] == [(16, 2)] * 2 + [
        (24, 1)
    ] * 2
    assert architecture({**once, "attention_k_eq_v": False}).of_layer(3).kv_heads == 2
    for name, value in {
        "vocab_size_per_layer_input": 161,
        "use_bidirectional_attention": "all",
    }.items():
        with pytest.raises(ModelUnsupported, match=f"{name} is"):
            architecture({**once, "hidden_size_per_layer_input": 8, name: value})
    with pytest.raises(
        ModelInvalid, match="sees keys of another"
    ):  # whose only layer without window is among them
        check_describable(architecture({**once, "num_kv_shared_layers": 2}))
    each = {**saved["per_layer_config"], "3": {"head_dim": 8, "num_key_value_heads": 1}}
    with pytest.raises(ModelInvalid, match="2 kinds of layers"):
        architecture({**saved, "per_layer_config": each})
