"""The same with embeddings in place of text: no tokenizer callback, no chat template."""

import ctypes
import sys

import chat
import numpy as np
from transformers import AutoTokenizer

from rknn3lite.api import LLMGetEmbedCallback, LLMResultCallback, RKLLMCallback, RKNN3Lite

if __name__ == "__main__":
    rknn_path, weight_path, tokenizer_path, embed_path = sys.argv[1:]
    chat.tokenizer = AutoTokenizer.from_pretrained(tokenizer_path)
    chat.table = np.fromfile(embed_path, dtype=np.float16).reshape(chat.VOCAB_SIZE, -1)

    rknn_llm = RKNN3Lite(llm_mode=True, verbose=True)
    ret = rknn_llm.load_rknn(rknn_path, weight_path)
    if ret != 0:
        exit(ret)

    callback = RKLLMCallback()
    callback.result_callback = LLMResultCallback(chat.on_result)
    callback.result_userdata = None
    callback.embed_callback = LLMGetEmbedCallback(chat.on_embed)
    userdata = ctypes.py_object(chat.table)
    callback.embed_userdata = ctypes.cast(ctypes.pointer(userdata), ctypes.c_void_p)

    ret = rknn_llm.init_runtime(target="rk1820", core_mask=0xFF, llm_args=chat.ARGS, llm_callback=callback)
    if ret != 0:
        exit(ret)

    for prompt in ["What is light?", "Who are you?"]:
        messages = [{"role": "user", "content": prompt}]
        text = chat.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        inputs = chat.tokenizer(text, return_tensors="np", truncation=True)
        embeds = chat.table[inputs.input_ids]
        assert embeds.dtype == np.float16 and embeds.ndim == 3
        ret, [n_decode_tokens, n_prefill_tokens, start, end] = rknn_llm.session_run(embeds=embeds)
        if ret != 0:
            exit(ret)
        assert n_prefill_tokens == embeds.shape[1]
        chat.figures(chat.first_token, n_decode_tokens, n_prefill_tokens, start, end)
        chat.first_token = None
    print("done")
    rknn_llm.release()
