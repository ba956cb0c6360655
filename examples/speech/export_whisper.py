"""Cut a Whisper model of OpenAI's package into the two networks that rknnlite runs.

    pip install openai-whisper onnx
    python export_whisper.py base models/whisper

The model zoo's own export holds 12 tokens and hears 20 s; this one hears 30 s and holds 128, so that times are told.
"""

import argparse
import base64
import signal
from pathlib import Path

import torch
import whisper
from whisper.tokenizer import get_tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="tiny, base, small.en, ..., or a .pt file")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=128, help="prompt and answer that the decoder holds")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)

    model = whisper.load_model(args.model, "cpu").eval()
    whisper.model.MultiHeadAttention.use_sdpa = False  # an operator that ONNX of version 12 lacks
    sound = torch.zeros(1, model.dims.n_mels, 3000)
    tokens = torch.zeros(1, args.tokens, dtype=torch.long)
    with torch.no_grad():
        states = model.encoder(sound)
        networks = {
            "encoder": (model.encoder, (sound,), ["x"]),
            "decoder": (model.decoder, (tokens, states), ["tokens", "audio"]),
        }
        for name, (network, inputs, names) in networks.items():
            torch.onnx.export(
                network,
                inputs,
                str(args.folder / f"{name}.onnx"),
                input_names=names,
                output_names=["out"],
                opset_version=12,
                dynamo=False,
            )

    encoding = get_tokenizer(model.is_multilingual, num_languages=model.num_languages).encoding
    lines = [
        f"{number} {base64.b64encode(encoding.decode_single_token_bytes(number)).decode()}\n"
        for number in range(encoding.n_vocab)
        if number < encoding.eot_token
    ]
    (args.folder / "vocab.txt").write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
