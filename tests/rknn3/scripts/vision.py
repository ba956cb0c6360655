"""A program about pictures as programs for rknn3-toolkit-lite are written: an encoder and a language model on one device.

It makes the calls of the vendor's programs for Qwen2.5-VL (rows of patches, or a picture in four dimensions), for Qwen3-VL with
its further outputs, and for videos of Qwen3-VL, and writes the ids of all tokens as JSON.
"""

import ctypes
import json
from argparse import ArgumentParser
from pathlib import Path

import chat
import cv2
import numpy as np
from transformers import AutoTokenizer

from rknn3lite.api import (
    Float16,
    LLMGetEmbedCallback,
    LLMResultCallback,
    LLMTokenizerCallback,
    RKLLMCallback,
    RKNN3AuxTensorWrapper,
    RKNN3Image,
    RKNN3Lite,
    RKNN3Video,
    dump_tensor_attr,
)

said = []


def on_result(userdata, result_ptr, state):
    if state == 0:
        said.extend([result_ptr.contents.token_ids[i] for i in range(result_ptr.contents.num_tokens)])
    return chat.on_result(userdata, result_ptr, state)


def patches(frames, patch, mean, std):
    planes = []
    for frame in frames:
        plane = np.float32(frame.transpose(2, 0, 1))[None]
        for channel in range(3):
            plane[0, channel, ...] = (plane[0, channel, ...] - mean[channel]) / std[channel]
        planes.append(plane)
    pair = np.concatenate(planes, axis=1)
    h, w = pair.shape[2:]
    pair = pair.reshape(1, 2, 3, h // 2 // patch, 2, patch, w // 2 // patch, 2, patch)
    pair = pair.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8)
    return np.float16(pair.reshape(h // patch * (w // patch), 3 * 2 * patch * patch))


def picture(path, size):
    return cv2.resize(cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB), (size, size))


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--rknn_vision_path", required=True)
    parser.add_argument("--rknn_llm_path", required=True)
    parser.add_argument("--tokenizer_path", required=True)
    parser.add_argument("--embed_path", required=True)
    parser.add_argument("--vocab_size", type=int, required=True)
    parser.add_argument("--eos", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--patch", type=int, required=True)
    parser.add_argument("--clip", action="store_true")
    parser.add_argument("--image", default=None)
    parser.add_argument("--frames", nargs="*", default=[])
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    mean = (122.7709383, 116.7460125, 104.09373615) if args.clip else (127.5,) * 3
    std = (68.5005327, 66.6321579, 70.32316305) if args.clip else (127.5,) * 3

    chat.tokenizer = AutoTokenizer.from_pretrained(args.tokenizer_path)
    chat.table = np.fromfile(args.embed_path, dtype=np.float16).reshape(args.vocab_size, -1)

    rknn_vision = RKNN3Lite()
    rknn_llm = RKNN3Lite(llm_mode=True, verbose=True)
    ret = rknn_vision.load_rknn(args.rknn_vision_path, args.rknn_vision_path.replace(".rknn", ".weight"))
    if ret != 0:
        exit(ret)
    ret = rknn_llm.load_rknn(args.rknn_llm_path, args.rknn_llm_path.replace(".rknn", ".weight"))
    if ret != 0:
        exit(ret)

    callback = RKLLMCallback()
    callback.result_callback = LLMResultCallback(on_result)
    callback.result_userdata = None
    callback.tokenizer_callback = LLMTokenizerCallback(chat.on_text)
    userdata = ctypes.py_object(chat.tokenizer)
    callback.tokenizer_userdata = ctypes.cast(ctypes.pointer(userdata), ctypes.c_void_p)
    callback.embed_callback = LLMGetEmbedCallback(chat.on_embed)
    userdata = ctypes.py_object(chat.table)
    callback.embed_userdata = ctypes.cast(ctypes.pointer(userdata), ctypes.c_void_p)

    ret = rknn_vision.init_runtime(target="rk1820", core_mask=0xFF)
    if ret != 0:
        exit(ret)
    chat.ARGS[0].update(
        max_new_tokens=16, repeat_penalty=1.0, vocab_size=args.vocab_size, special_eos_id=args.eos
    )
    ret = rknn_llm.init_runtime(target="rk1820", core_mask=0xFF, llm_args=chat.ARGS, llm_callback=callback)
    if ret != 0:
        exit(ret)
    for name, attrs in (
        ("rknn_vision input", rknn_vision.get_inputs_tensor_attr()),
        ("rknn_vision output", rknn_vision.get_outputs_tensor_attr()),
        ("rknn_llm input", rknn_llm.get_inputs_tensor_attr()),
        ("rknn_llm output", rknn_llm.get_outputs_tensor_attr()),
    ):
        for attr in attrs:
            dump_tensor_attr(attr, prefix=name)
    ret = rknn_llm.set_chat_template("", chat.PREFIX, chat.POSTFIX)
    if ret != 0:
        exit(ret)

    outputs = []
    if args.image:
        img = picture(args.image, args.size)
        if rknn_vision.get_inputs_tensor_attr()[0].n_dims == 4:
            feature = np.float16(img.reshape(1, args.size, args.size, 3))
        else:
            feature = patches([img, img], args.patch, mean, std)
        outputs.append(rknn_vision.inference(inputs=[feature]))
    for i in range(0, len(args.frames), 2):
        pair = [picture(path, args.size) for path in args.frames[i : i + 2]]
        outputs.append(rknn_vision.inference(inputs=[patches(pair, args.patch, mean, std)]))
    rows = np.float16(np.concatenate([np.expand_dims(one[0], 0) for one in outputs], axis=0))
    block = RKNN3Image() if args.image else RKNN3Video()
    kind = "image" if args.image else "video"
    setattr(block, f"{kind}_embed", rows.ctypes.data_as(ctypes.POINTER(Float16)))
    if args.image:
        block.n_image_tokens, block.n_image = rows.shape[1], rows.shape[0]
        block.image_width = block.image_height = args.size
    else:
        block.n_frame_per_video, block.n_frame_tokens, block.n_video = rows.shape[0], rows.shape[1], 1
        block.frame_width = block.frame_height = args.size
    setattr(block, f"{kind}_start", b"<|vision_start|>")
    setattr(block, f"{kind}_end", b"<|vision_end|>")
    setattr(block, f"{kind}_content", f"<|{kind}_pad|>".encode())
    aligned_size = rknn_vision.get_outputs_tensor_attr()[0].aligned_size * rows.shape[0]
    inputs = [block]
    for i in range(len(outputs[0]) - 1):
        wrapper = RKNN3AuxTensorWrapper()
        wrapper.index = 2 + i
        wrapper.aux_data = np.float16(np.concatenate([one[1 + i] for one in outputs], axis=0))
        wrapper.align_size = aligned_size
        inputs.append(wrapper)
    runs = []
    for _ in range(2):
        ret, [n_decode_tokens, n_prefill_tokens, start, end] = rknn_llm.session_run(
            inputs=inputs, prompt=f"<{kind}>What is this?"
        )
        if ret != 0:
            exit(ret)
        chat.figures(chat.first_token, n_decode_tokens, n_prefill_tokens, start, end)
        chat.first_token = None
        runs.append({"ids": said[:], "prefill": n_prefill_tokens, "decode": n_decode_tokens})
        said.clear()
    with Path(args.out).open("w") as file:
        json.dump(runs, file)
    rknn_vision.release()
    rknn_llm.release()
