"""Live comparison with Hugging Face transformers, where it is installed (extra of the tests, see README)."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import Embedder, EmbedTable, Package, Tokenizer, export_llm, open_llm
from rknnlite_llm.quality import EvaluationSettings, evaluate

from rknnlite.spi.llm import InferParams, LlmCallbacks, LlmParams, TokenInput, VocabInfo
from tests.llm.conftest import Recorder
from tests.llm.make_goldens import hidden_states, plain_greedy
from tests.llm.test_quality import TEXT, TRAINED
from tests.support.corpus import ROOT
from tests.support.embedding_models import SENTENCES, TOKENIZERS, write_encoder
from tests.support.sampling_chain import SETTINGS, paired, total_variation, wanted

torch = pytest.importorskip("torch", reason="needs torch and transformers")
transformers = pytest.importorskip("transformers", reason="needs torch and transformers")

NEVER_ENDS = LlmParams(vocab=VocabInfo(ignore_eos_token=True))
COMMON = {
    "vocab_size": 320, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 1024, "initializer_range": 0.15,
}  # fmt: skip
ENCODER = {
    "vocab_size": 320, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 514, "initializer_range": 0.15,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64, "rope_theta": 500000.0,
}  # fmt: skip
CONFIGS = {
    "qwen2": lambda: transformers.Qwen2Config(**COMMON, tie_word_embeddings=True),
    "qwen3": lambda: transformers.Qwen3Config(**COMMON, head_dim=32),
    "llama": lambda: transformers.LlamaConfig(**COMMON, rope_parameters=LLAMA3),
}


def _model(name: str):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]()).eval().float()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if key.endswith("_proj.bias"):
                weight.normal_(std=0.2)
    return model


@pytest.mark.parametrize("name", CONFIGS)
def test_random_model_says_the_same_over_two_turns(name: str, tmp_path: Path) -> None:
    model = _model(name)
    model.save_pretrained(tmp_path / "hf")
    package = export_llm(tmp_path / "hf", tmp_path / "p", "f32")
    recorder, logits = Recorder(), []
    callbacks = LlmCallbacks(
        recorder,
        embed=EmbedTable(package.embed, 320, 64),
        output=lambda outputs, state: logits.append(outputs[0].data[0].copy()),
        outputs=(0,),
    )
    first, second = (np.random.default_rng(i).integers(0, 320, 70) for i in range(2))
    with open_llm(package.model, prefill_chunk=32) as context:
        session = context.session(NEVER_ENDS, callbacks)
        session.run(TokenInput(first), InferParams(max_new_tokens=256))
        said = recorder.tokens
        session.run(TokenInput(second), InferParams(keep_history=True, max_new_tokens=64))
    assert said == plain_greedy(model, torch.tensor(first[None]), 256).tolist()
    history = np.concatenate([first, said, second])
    assert recorder.tokens[256:] == plain_greedy(model, torch.tensor(history[None]), 64).tolist()
    with torch.inference_mode():
        wanted = model(torch.tensor(first[None])).logits[0, -1].numpy()
    assert np.abs(logits[2] - wanted).max() < 1e-3  # three chunks of prefill


EMBEDDING_CONFIGS = {
    "bert": lambda: transformers.BertConfig(**ENCODER, hidden_act="gelu_new", type_vocab_size=2),
    "xlm-roberta": lambda: transformers.XLMRobertaConfig(**ENCODER, pad_token_id=1, layer_norm_eps=1e-5),
    "qwen3": lambda: transformers.Qwen3Config(**COMMON, head_dim=32),
}


@pytest.mark.parametrize("pooling", ["last", "mean", "cls"])
@pytest.mark.parametrize("name", EMBEDDING_CONFIGS)
def test_random_model_embeds_the_same(name: str, pooling: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    model = transformers.AutoModel.from_config(EMBEDDING_CONFIGS[name]()).eval().float()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(tmp_path / "hf")
    package = export_llm(tmp_path / "hf", tmp_path / "p", "f32", pooling=pooling)
    texts = [np.random.default_rng(i).integers(4, 320, n) for i, n in enumerate((300, 1, 17, 120))]
    pick = {
        "last": lambda rows: rows[-1],
        "mean": lambda rows: rows.mean(axis=0),
        "cls": lambda rows: rows[0],
    }
    wanted = np.array([pick[pooling](rows) for rows in hidden_states(tmp_path / "hf", texts)])
    wanted /= np.linalg.norm(wanted, axis=1)[:, None]
    with open_llm(package.model, prefill_chunk=64) as context:
        found = context.embed(texts, EmbedTable(package.embed, 320, 64))
    assert np.abs(found - wanted).max() < 1e-4


@pytest.mark.parametrize("family", TOKENIZERS)
def test_texts_become_the_embeddings_that_transformers_makes(family: str, tmp_path: Path) -> None:
    source = write_encoder(tmp_path / "hf", family)
    TOKENIZERS[family](source / "tokenizer.json")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(source / "tokenizer.json"))
    texts = ["The cat sat on the mat.", "chips", *SENTENCES]
    ids = [np.array(theirs(text, truncation=False, padding=False)["input_ids"]) for text in texts]
    wanted = np.array([rows.mean(axis=0) for rows in hidden_states(source, ids)])
    wanted /= np.linalg.norm(wanted, axis=1)[:, None]
    export_llm(source, tmp_path / "p", "f32")
    with Embedder(tmp_path / "p") as embedder:
        assert np.abs(embedder.embed(texts) - wanted).max() < 1e-4


def test_trained_model_says_the_same(example: Path, tmp_path: Path) -> None:
    """The package in the repository, against transformers on the weights that are in it."""
    source = example.parent.parent / "trained"
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    exact = export_llm(source, tmp_path / "exact", "f32")
    tokenizer = Tokenizer(Package.of(example).tokenizer)
    ids = np.array(tokenizer.encode("<|im_start|>user\nWhat is 12 + 30?<|im_end|>\n<|im_start|>assistant\n"))
    recorder = Recorder()
    with open_llm(exact.model) as context:
        embed = EmbedTable(exact.embed, context.config.vocab_size, context.config.embedding_dim)
        context.session(NEVER_ENDS, LlmCallbacks(recorder, embed=embed)).run(
            TokenInput(ids), InferParams(max_new_tokens=256)
        )
    assert recorder.tokens == plain_greedy(model, torch.tensor(ids[None]), 256).tolist()


@pytest.mark.slow
def test_every_family_agrees_anew(tmp_path: Path) -> None:
    """The whole comparison, with the models made here: ``python -m tools.llm_families``."""
    command = [
        sys.executable,
        "-m",
        "tools.llm_families",
        "--python",
        sys.executable,
        "--keep",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow
def test_media_models_against_transformers_itself(tmp_path: Path) -> None:
    """The whole comparison of ``tools/llm_media``, float encoders included."""
    command = [sys.executable, "-m", "tools.llm_media", "--python", sys.executable, "--keep", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_transformers_read_a_checkpoint_as_the_source_does(tmp_path: Path) -> None:
    export_llm(TRAINED, tmp_path / "w8", "w8")
    found = evaluate(TRAINED, [tmp_path / "w8"], TEXT, EvaluationSettings(32, 200, python=sys.executable))[-1]
    assert found.name == "transformers"
    assert found.all.kl_max < 1e-6 and found.all.top1 == 1


WARPERS = {
    "temperature": "TemperatureLogitsWarper",
    "top_k": "TopKLogitsWarper",
    "top_p": "TopPLogitsWarper",
    "min_p": "MinPLogitsWarper",
}


@pytest.mark.parametrize("pair", list(itertools.combinations(WARPERS, 2)), ids="-".join)
def test_the_chain_of_sampling_is_that_of_transformers(pair: tuple[str, str]) -> None:
    logits = np.random.default_rng(4).normal(0, 1.5, 24).astype(np.float32)
    config = transformers.GenerationConfig(do_sample=True, top_k=0, **{name: SETTINGS[name] for name in pair})
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS["qwen2"]())
    chain = model._get_logits_processor(config, input_ids_seq_length=1, device="cpu")
    assert {type(one).__name__ for one in chain} == {WARPERS[name] for name in pair}
    scores = chain(torch.tensor([[0]]), torch.tensor(logits)[None])
    theirs = torch.softmax(scores[0].double(), -1).numpy()
    assert total_variation(theirs, wanted(paired(*pair), logits, [], {})) < 1e-6
