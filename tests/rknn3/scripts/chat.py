"""A chat program as programs for rknn3-toolkit-lite are written: ctypes callbacks, a table of figures."""

import ctypes
import time
from argparse import ArgumentParser

import numpy as np
from transformers import AutoTokenizer

from rknn3lite.api import (
    LLMGetEmbedCallback,
    LLMResultCallback,
    LLMTokenizerCallback,
    RKLLMCallback,
    RKNN3Lite,
)

VOCAB_SIZE = 151936
ARGS = [
    {
        "max_new_tokens": 12,
        "top_k": 1,
        "top_p": 0.8,
        "temperature": 0.8,
        "repeat_penalty": 1.1,
        "vocab_size": VOCAB_SIZE,
        "special_eos_id": 151645,
        "max_context_len": 1024,
        "keep_history": 0,
    }
]
SYSTEM = "<|im_start|>system\nBe brief.<|im_end|>\n"
PREFIX = "<|im_start|>user\n"
POSTFIX = "<|im_end|>\n<|im_start|>assistant\n"

tokenizer = None
table = None
first_token = None
ENDS = {2: "finished", 3: "stopped", 4: "enough"}


def on_result(userdata, result_ptr, state):
    global first_token
    if not hasattr(on_result, "tokens"):
        on_result.tokens = []
    if state == 5:
        print("error")
    elif state in (2, 3, 4):
        print(f"\n[{ENDS[state]}] {len(on_result.tokens)} tokens")
        on_result.tokens.clear()
    elif state == 1:
        print("waiting for the rest of a character")
    elif state == 0:
        count = result_ptr.contents.num_tokens
        on_result.tokens.extend([result_ptr.contents.token_ids[i] for i in range(count)])
        if first_token == None:  # noqa: E711
            first_token = time.perf_counter()
        text = tokenizer.decode(
            on_result.tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        print(text.split("\ufffd", 1)[0], end="\r", flush=True)
    return 0


def on_text(userdata, text_ptr, text_len, tokens_ptr, n_tokens_max):
    text = text_ptr.decode("utf-8")
    assert len(text_ptr) == text_len and n_tokens_max == text_len + 2
    tokens = tokenizer(text, return_tensors="np", truncation=True)["input_ids"][0][:n_tokens_max]
    for i in range(len(tokens)):
        tokens_ptr[i] = tokens[i]
    return len(tokens)


def on_embed(userdata, tokens_ptr, num_tokens, embded, length):
    width = table.shape[1]
    if length != num_tokens * width * np.dtype(np.float16).itemsize:
        return -1
    memory = ctypes.cast(embded, ctypes.POINTER(ctypes.c_uint16))
    rows = np.ctypeslib.as_array(memory, shape=(num_tokens * width,)).view(np.float16)
    rows[:] = table[[tokens_ptr[i] for i in range(num_tokens)]].ravel()
    return 0


def figures(first, n_decode_tokens, n_prefill_tokens, start, end):
    print(f"{'Stage':10} {'Time (ms)':12} {'Tokens':8} {'Tokens/s':10}")
    for stage, seconds, count in (
        ("Prefill", first - start, n_prefill_tokens),
        ("Generate", end - first, n_decode_tokens),
    ):
        print(f"{stage:10} {seconds * 1000:<12.2f} {count:<8d} {count / seconds:<10.2f}")


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--rknn_path", type=str, required=True)
    parser.add_argument("--weight_path", type=str, required=True)
    parser.add_argument("--tokenizer_path", type=str, required=True)
    parser.add_argument("--embed_path", type=str, required=True)
    args = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer_path)
    table = np.fromfile(args.embed_path, dtype=np.float16)
    table = table.reshape(VOCAB_SIZE, -1)

    rknn = RKNN3Lite(llm_mode=True, verbose=True)
    ret = rknn.load_rknn(args.rknn_path, args.weight_path)
    if ret != 0:
        exit(ret)

    callback = RKLLMCallback()
    callback.result_callback = LLMResultCallback(on_result)
    callback.result_userdata = None
    callback.tokenizer_callback = LLMTokenizerCallback(on_text)
    userdata = ctypes.py_object(tokenizer)
    callback.tokenizer_userdata = ctypes.cast(ctypes.pointer(userdata), ctypes.c_void_p)
    callback.embed_callback = LLMGetEmbedCallback(on_embed)
    userdata = ctypes.py_object(table)
    callback.embed_userdata = ctypes.cast(ctypes.pointer(userdata), ctypes.c_void_p)

    ret = rknn.init_runtime(target="rk1820", core_mask=0xFF, llm_args=ARGS, llm_callback=callback)
    if ret != 0:
        print("no runtime")
        exit(ret)
    ret = rknn.set_chat_template(SYSTEM, PREFIX, POSTFIX)
    if ret != 0:
        exit(ret)

    for prompt in ["What is light?", "\u4f60\u662f\u8c01\uff1f", "Who are you?"]:
        ret, [n_decode_tokens, n_prefill_tokens, start, end] = rknn.session_run(prompt=prompt)
        if ret != 0:
            exit(ret)
        figures(first_token, n_decode_tokens, n_prefill_tokens, start, end)
        first_token = None
    print("done")
    rknn.release()
