#!/usr/bin/env python3
"""Ask a vision-language model (Qwen2-VL, Qwen2.5-VL, Qwen3-VL) about pictures.

    python ask.py ENCODER.rknn PREFIX "<image>What is this?" --image picture.png
    python ask.py ENCODER.rknn PREFIX "<video>What happens?" --frames 0.png 1.png 2.png 3.png

Two models on one device: the encoder of one picture (or of two frames of a video), and the language part that
``rknnlite export-llm`` makes. What the encoder gives goes in at the tags; its further outputs (Qwen3-VL) go along as auxiliary
inputs.
"""

from __future__ import annotations

import argparse
import ctypes
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rknnlite_llm import Tokenizer

from rknn3lite.api import Float16, RKLLMCallback, RKNN3AuxTensorWrapper, RKNN3Image, RKNN3Lite, RKNN3Video

START, END = b"<|vision_start|>", b"<|vision_end|>"
CONTENT = {"image": b"<|image_pad|>", "video": b"<|video_pad|>"}
FIRST_AUX = 2
"""Inputs of the language model that the encoder's further outputs belong to."""


def patches(frames: list[np.ndarray], patch: int) -> np.ndarray:
    """Two frames (height, width, 3), uint8, as the encoder takes them: float32 (patches, 3 * 2 * patch * patch)."""
    pair = np.stack(frames).transpose(0, 3, 1, 2) / np.float32(127.5) - np.float32(1)
    rows, columns = pair.shape[2] // patch, pair.shape[3] // patch
    cut = pair.reshape(2, 3, rows // 2, 2, patch, columns // 2, 2, patch)
    merged = cut.transpose(2, 5, 3, 6, 1, 0, 4, 7).reshape(rows * columns, -1)
    return np.ascontiguousarray(merged, np.float32)


def encode(encoder: RKNN3Lite, pairs: list[np.ndarray]) -> list[np.ndarray]:
    """What the encoder says to all pictures, output by output: float16 (pictures, tokens, channels)."""
    answers = []
    for pair in pairs:
        outputs = encoder.inference(inputs=[pair], data_format=["undefined"])
        if outputs is None:
            sys.exit("the encoder refused the picture, see above")
        answers.append([output.reshape(-1, output.shape[-1]).astype(np.float16) for output in outputs])
    return [np.stack(rows) for rows in zip(*answers)]


def image_block(rows: np.ndarray, width: int, height: int) -> RKNN3Image:
    """The structure for images; ``rows`` must live as long as it."""
    block = RKNN3Image()
    block.image_embed = rows.ctypes.data_as(ctypes.POINTER(Float16))
    block.n_image, block.n_image_tokens = rows.shape[:2]
    block.image_start, block.image_end, block.image_content = START, END, CONTENT["image"]
    block.image_width, block.image_height = width, height
    return block


def video_block(rows: np.ndarray, width: int, height: int) -> RKNN3Video:
    """The structure for one video."""
    block = RKNN3Video()
    block.video_embed = rows.ctypes.data_as(ctypes.POINTER(Float16))
    block.n_video, block.n_frame_per_video, block.n_frame_tokens = 1, *rows.shape[:2]
    block.video_start, block.video_end, block.video_content = START, END, CONTENT["video"]
    block.frame_width, block.frame_height = width, height
    return block


def opened(path: str, weight: str | None, **options: Any) -> RKNN3Lite:
    """A model on the device."""
    rknn = RKNN3Lite(llm_mode="llm_args" in options)
    if rknn.load_rknn(path, weight) != 0 or rknn.init_runtime("rk1820", core_mask=0xFF, **options) != 0:
        sys.exit(f"{path} cannot be opened, see above")
    return rknn


def main() -> int:
    """Encode, splice, generate, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder")
    parser.add_argument("prefix", type=Path)
    parser.add_argument("prompt")
    parser.add_argument("--image", nargs="*", default=[], help="pictures of one size, a tag <image> each")
    parser.add_argument("--frames", nargs="*", default=[], help="frames of one video, a tag <video> for all")
    parser.add_argument("--patch", type=int, default=14, help="pixels of a patch (Qwen3-VL: 16)")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    args = parser.parse_args()
    paths = args.image or args.frames
    pictures = [np.asarray(Image.open(path).convert("RGB")) for path in paths]
    if not pictures or bool(args.image) == bool(args.frames):
        parser.error("name pictures with --image, or the frames of a video with --frames")
    height, width = pictures[0].shape[:2]
    if args.image:
        pairs = [patches([picture, picture], args.patch) for picture in pictures]
    else:
        frames = pictures + pictures[-1:] * (len(pictures) % 2)
        pairs = [patches(frames[i : i + 2], args.patch) for i in range(0, len(frames), 2)]
    encoder = opened(args.encoder, None)
    rows, *further = encode(encoder, pairs)
    encoder.release()

    tokenizer, said = Tokenizer(f"{args.prefix}.tokenizer.gguf"), []

    def result(userdata: Any, answer: Any, state: int) -> int:
        if state == 0:
            said.extend(answer.contents.token_ids[i] for i in range(answer.contents.num_tokens))
        return 0

    llm_args = [{"max_new_tokens": args.max_new_tokens, "max_context_len": 1024}]
    callback = RKLLMCallback(result_callback=result)
    language = opened(
        f"{args.prefix}.rknn", f"{args.prefix}.weight", llm_args=llm_args, llm_callback=callback
    )
    block = image_block(rows, width, height) if args.image else video_block(rows, width, height)
    aux = [
        RKNN3AuxTensorWrapper(values, index=FIRST_AUX + number, align_size=values.nbytes)
        for number, values in enumerate(further)
    ]
    ret, counts = language.session_run(inputs=[block, *aux], prompt=args.prompt)
    language.release()
    if ret != 0:
        sys.exit("the run failed, see above")
    print(tokenizer.decode(said))
    print(f"{counts[1]} tokens in, {counts[0]} tokens out")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    sys.exit(main())
