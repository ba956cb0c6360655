"""What ``llm_speed.py`` measures, each in a process of its own, which may be another Python: ``llm_workers.py KIND PATH``.

It answers a line of standard input (``prefill TOKENS``, ``decode COUNT``) by a line with wall and CPU seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PROMPT, LONG, STEPS = 256, 2048, 8
CHUNK = 256  # as a context prefills


class Gemv:
    """A product of a float32 matrix of 1 GiB and a vector, by numpy: what memory allows."""

    def __init__(self, path: str) -> None:
        self._matrix, self._x = np.ones((1 << 16, 1 << 12), np.float32), np.ones(1 << 12, np.float32)

    def decode(self, count: int) -> None:
        """Once, whatever ``count`` is; ``STEPS`` divides what is measured."""
        for _ in range(STEPS):
            _ = self._matrix @ self._x


class Ours:
    """The decoder on a package; ``path`` is ``PREFIX:ENGINE``."""

    def __init__(self, path: str) -> None:
        from rknnlite_cpu.llm.compiled_products import chosen
        from rknnlite_cpu.llm.decoder import Decoder
        from rknnlite_cpu.llm.decoder_input import DecoderInput
        from rknnlite_cpu.llm.kv_cache import KvCache
        from rknnlite_cpu.llm.linear import make_linear
        from rknnlite_llm import EmbedTable, Package
        from rknnlite_llm.container.description import read_llm
        from rknnlite_llm.container.safetensors import SafeTensors

        from rknnlite.formats import ModelFile

        prefix, _, engine = path.rpartition(":")
        package, products = Package.of(prefix), chosen(engine)
        model = read_llm(ModelFile(package.model))
        make, attention = (make_linear, None) if products is None else (products.linear, products.attention)
        weights = ModelFile(package.weight)
        tensors = SafeTensors(weights.data)
        weights.want_large_pages()  # as the engine does
        self._decoder, self._input = Decoder(model, tensors, make, attention), DecoderInput
        self._embed = EmbedTable(package.embed, model.arch.vocab_size, model.arch.hidden)
        self._caches = [KvCache(model.arch, model.kv, 2 * PROMPT) for _ in range(4)]
        self._long = KvCache(model.arch, model.kv, LONG)

    def prefill(self, tokens: int) -> None:
        """Of a cache of its own; those of ``decode`` get ``PROMPT`` tokens when they are first used."""
        self._start(self._long, tokens)

    def _start(self, cache: Any, tokens: int) -> None:
        cache.truncate(0)
        for place in range(0, tokens, CHUNK):
            rows = self._rows(_prompt(tokens)[place : place + CHUNK])
            (hidden,) = self._decoder.forward([(rows, cache)])
        self._decoder.logits([hidden[-1:]])

    def _rows(self, ids: np.ndarray) -> np.ndarray:
        return self._embed(ids).astype(np.float32)

    def decode(self, count: int) -> None:
        """A token of each of ``count`` sessions, ``STEPS`` times."""
        caches = self._caches[:count]
        for cache in caches:
            if cache.total < PROMPT:
                self._start(cache, PROMPT)
        tokens = np.zeros(count, int)
        for _ in range(STEPS):
            rows = self._rows(tokens)
            step = self._decoder.step(self._input(rows), caches[0]) if count == 1 else None
            if step is not None:
                tokens = step[1].argmax(axis=1)
                continue
            hidden = self._decoder.forward([(rows[i : i + 1], cache) for i, cache in enumerate(caches)])
            tokens = self._decoder.logits(hidden).argmax(axis=1)


class Transformers:
    """Hugging Face transformers, float32, on the directory from which the packages were made."""

    def __init__(self, path: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._torch = torch
        torch.set_num_threads(_cores())
        self._model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()

    def prefill(self, tokens: int) -> None:
        """With a fresh cache."""
        self._cache = None
        self._next(self._torch.tensor(_prompt(tokens)[None]))

    def decode(self, count: int) -> None:
        """Of one session."""
        for _ in range(STEPS):
            self._next(self._token)

    def _next(self, ids: Any) -> None:
        with self._torch.inference_mode():
            answer = self._model(ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        self._cache, self._token = answer.past_key_values, answer.logits[:, -1:].argmax(-1)


class LlamaCpp:
    """llama.cpp by llama-cpp-python on a GGUF file."""

    def __init__(self, path: str) -> None:
        import llama_cpp

        self._api = api = llama_cpp
        _quietly(api)
        api.llama_backend_init()
        chosen = api.llama_model_default_params()
        chosen.use_extra_bufts = True  # weights are laid out anew for its fastest kernels
        self._model = api.llama_model_load_from_file(path.encode(), chosen)
        params = api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = LONG + PROMPT, LONG, 512  # its default
        params.n_threads = params.n_threads_batch = _cores()
        self._context = api.llama_init_from_model(self._model, params)
        if not self._context:
            raise RuntimeError(f"llama.cpp does not open {path}")
        self._vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self._model))

    def prefill(self, tokens: int) -> None:
        """With an empty cache."""
        self._api.llama_memory_clear(self._api.llama_get_memory(self._context), True)
        self._token = self._next(_prompt(tokens))

    def decode(self, count: int) -> None:
        """Of one session."""
        for _ in range(STEPS):
            self._token = self._next(np.array([self._token]))

    def _next(self, ids: np.ndarray) -> int:
        tokens = (self._api.llama_token * len(ids))(*ids.tolist())
        if self._api.llama_decode(self._context, self._api.llama_batch_get_one(tokens, len(ids))):
            raise RuntimeError("llama_decode failed")
        logits = np.ctypeslib.as_array(self._api.llama_get_logits_ith(self._context, -1), (self._vocabulary,))
        return int(logits.argmax())


def make_gguf(source: str, target: str) -> None:
    """A Qwen2 directory as GGUF, ``target.f16.gguf``, then ``.q8_0.gguf`` and ``.q4_k.gguf``; its words mean nothing."""
    import gguf
    import llama_cpp

    _quietly(llama_cpp)
    config = json.loads((Path(source) / "config.json").read_text())
    path = f"{target}.f16.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([f"<{number}>" for number in range(config["vocab_size"])])
    writer.add_token_types([gguf.TokenType.NORMAL] * config["vocab_size"])
    writer.add_token_merges(["< 0"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config["num_hidden_layers"])
    for name, array in _tensors(Path(source) / "model.safetensors"):
        ours = names.get_name(name, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(ours, array.astype(np.float32) if array.ndim == 1 else array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for name, kind in (
        ("q8_0", llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0),
        ("q4_k", llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M),
    ):
        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype = kind
        done = f"{target}.{name}.gguf"
        if llama_cpp.llama_model_quantize(path.encode(), done.encode(), params):
            raise RuntimeError(f"llama.cpp does not quantise {path}")


def _quietly(api: Any) -> None:
    global _silence
    _silence = api.llama_log_callback(lambda level, text, data: None)
    api.llama_log_set(_silence, None)


def _tensors(path: Path) -> Any:
    data = np.memmap(path, np.uint8, "r")
    size = int(data[:8].view("<u8")[0])
    for name, entry in json.loads(bytes(data[8 : 8 + size])).items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            yield name, data[8 + size + start : 8 + size + end].view("<f2").reshape(entry["shape"])


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _prompt(tokens: int) -> np.ndarray:
    return np.random.default_rng(0).integers(256, 8000, tokens)


def first_token(prefix: str) -> dict[str, float]:
    """Seconds from the end of imports to an open model, to its first token, and to that of the same prompt again."""
    from rknnlite_llm import Chat

    start, cpu = time.perf_counter(), time.process_time()
    with Chat(prefix, backend="cpu") as chat:
        opened, opened_cpu = time.perf_counter(), time.process_time()
        turns = []
        for _ in range(2):
            begun, begun_cpu = time.perf_counter(), time.process_time()
            next(iter(chat.stream("hello" * 10, max_new_tokens=2)), None)
            turns.append((time.perf_counter() - begun, time.process_time() - begun_cpu))
            chat.session.clear_kvcache()
    wall, used = opened - start, opened_cpu - cpu
    return {"wall": wall + turns[0][0] - turns[1][0], "cpu": used + turns[0][1] - turns[1][1]}


def export_memory(arguments: str) -> dict[str, float]:
    """Megabytes of anonymous memory at the peak of an export, beyond those before: ``SOURCE:PREFIX:WEIGHTS``."""
    import threading

    from rknnlite_llm import export_llm

    source, prefix, weights = arguments.split(":")
    done, seen, before, calls = threading.Event(), [0.0], _anonymous(), []

    def watch() -> None:
        while not done.wait(0.005):
            seen.append(max(seen.pop(), _anonymous()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        export_llm(source, prefix, weights, progress=lambda *call: calls.append(call))
    finally:
        done.set()
        watcher.join()
    return {"megabytes": seen[0] - before, "steps": len(calls)}


def _anonymous() -> float:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("Anonymous"))


KINDS: dict[str, Callable[[str], Any]] = {
    "gemv": Gemv, "ours": Ours, "transformers": Transformers, "llama.cpp": LlamaCpp,
}  # fmt: skip
ONCE = {"gguf": lambda paths: make_gguf(*paths.split(":")), "first": first_token, "export": export_memory}


def main() -> None:
    kind, path = sys.argv[1:3]
    threads = int(os.environ.get("WORKER_THREADS", "0"))
    if threads:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    if kind in ONCE:
        print(json.dumps(ONCE[kind](path)))
        return
    worker = KINDS[kind](path)
    print("ready", flush=True)
    for line in sys.stdin:
        name, *arguments = line.split()
        start, cpu = time.perf_counter(), time.process_time()
        getattr(worker, name)(*map(int, arguments))
        print(json.dumps([time.perf_counter() - start, time.process_time() - cpu]), flush=True)


if __name__ == "__main__":
    main()
