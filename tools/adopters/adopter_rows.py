"""The programs, one row each. docs/adopting.md has the same names; what each row does is a program in ``programs/``."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ADOPTERS", "BOARD", "LIBRARY", "Adopter"]


@dataclass(frozen=True)
class Adopter:
    """One program of somebody else's.

    ``source`` is the distribution on PyPI, or the repository of which a developer names a checkout. ``install`` are the
    arguments of pip, one command each; rknnlite and its companion are there before. ``command`` is what its users type.
    """

    name: str
    source: str
    licence: str
    install: tuple[str, ...]
    command: str
    checkout: bool = False  # whether its code comes from a checkout
    exec: tuple[
        str, ...
    ] = ()  # words of `rknnlite exec`: nothing, the library alone, or the board that it looks for
    program: str = ""  # in programs/; by default the name

    @property
    def script(self) -> str:
        return f"{self.program or 'with_' + self.name.replace('-', '_')}.py"

    @property
    def distribution(self) -> str:
        """What its version is asked of; nothing where it is a checkout."""
        return "" if self.checkout else self.source


PLAY = "rknnlite exec --soc rk3588 --"
LIBRARY, BOARD = ("exec", "--"), ("exec", "--soc", "rk3588", "--")

ADOPTERS = (
    Adopter(
        "ultralytics",
        source="ultralytics",
        licence="AGPL-3.0",
        install=("ultralytics==8.4.190 opencv-python-headless",),
        command=f"{PLAY} yolo predict model=x_rknn_model source=picture.jpg",
        exec=BOARD,
    ),
    Adopter(
        "rk-transformers",
        source="rk-transformers",
        licence="Apache-2.0",
        install=(
            # Its list asks for what only its converter uses; the newest of these do not go with each other.
            "--no-deps rk-transformers==0.3.1 optimum==2.1.0 optimum-onnx==0.1.0 transformers==4.57.6"
            " tokenizers==0.22.2 huggingface-hub==0.36.0 sentence-transformers==5.1.2",
            "torch packaging pyyaml regex requests safetensors tqdm onnx scipy scikit-learn pillow",
        ),
        command=f"{PLAY} python embed.py",
        exec=BOARD,
    ),
    Adopter(
        "ez-rknn-async",
        source="ztu-somemodelruntime-ez-rknn-async",
        licence="AGPL-3.0",
        install=("ztu-somemodelruntime-ez-rknn-async==0.11.0",),
        command="rknnlite exec -- python program.py",
        exec=LIBRARY,
    ),
    Adopter(
        "rkvoice-stream",
        source="rkvoice-stream",
        licence="Apache-2.0",
        install=("--no-deps rkvoice-stream==0.2.0", "soundfile pyyaml pydantic"),
        command="python -m rkvoice_stream",
    ),
    Adopter(
        "rknncli",
        source="rknncli",
        licence="MIT",
        install=("rknncli==0.3.3",),
        command="rknncli model.rknn",
    ),
    Adopter(
        "meta-rknn",
        source="meta-rknn",
        licence="Apache-2.0",
        install=("--no-deps meta-rknn==0.1.2", "meta-cv opencv-python-headless"),
        command=f"{PLAY} python program.py",
        exec=BOARD,
    ),
    Adopter(
        "frigate",
        source="blakeblackshear/frigate",
        licence="MIT",
        install=("opencv-python-headless onnxruntime pydantic pyyaml requests matplotlib",),
        command=f"{PLAY} python -m frigate",
        checkout=True,
        exec=BOARD,
    ),
    Adopter(
        "immich",
        source="immich-app/immich",
        licence="AGPL-3.0",
        install=("orjson fastapi pydantic-settings gunicorn uvicorn rich typing-extensions",),
        command=f"{PLAY} python -m immich_ml",
        checkout=True,
        exec=BOARD,
    ),
    Adopter(
        "rknn-multi-threaded",
        source="leafqycc/rknn-multi-threaded",
        licence="Apache-2.0",
        install=("opencv-python-headless",),
        command="python main.py",
        checkout=True,
    ),
    Adopter(
        "rknn-model-zoo",
        source="airockchip/rknn_model_zoo",
        licence="Apache-2.0",
        install=("opencv-python-headless torch", "./tools/rknn_api"),
        command="python yolov8.py --model_path model.rknn --target rk3588 --img_save",
        checkout=True,
    ),
    Adopter(
        "rknn-wakeword",
        source="nsbb/rknn-wakeword",
        licence="none stated",
        install=("pandas tqdm",),
        command="python inference_rknn.py",
        checkout=True,
    ),
    Adopter(
        "insightface-rknn",
        source="Nyan-SouthKorea/insightface-orangepi-rknn",
        licence="none stated",
        install=("opencv-python-headless",),
        command="python runtime/probe_rknn_lite2.py --rknn-path model.rknn ...",
        checkout=True,
    ),
    Adopter("rapidocr", "rapidocr", "Apache-2.0", ("--no-deps rapidocr==3.10.0",), "", program="no_engine"),
    Adopter("paddlex", "paddlex", "Apache-2.0", ("--no-deps paddlex==3.7.2",), "", program="no_engine"),
    Adopter("insightface", "insightface", "MIT", ("--no-deps insightface==2.1",), "", program="no_engine"),
    Adopter(
        "openwakeword",
        "openwakeword",
        "Apache-2.0",
        ("--no-deps openwakeword==0.6.0",),
        "",
        program="no_engine",
    ),
    Adopter("sherpa-onnx", "sherpa-onnx", "Apache-2.0", ("sherpa-onnx==2.0.1",), ""),
)
