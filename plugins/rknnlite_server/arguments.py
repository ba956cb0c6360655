"""Command lines of servers: the arguments of the RKNN3 guide's ``rkllm3-server``, and ours."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

from rknnlite.errors import ParamInvalid

from .keys import read_keys
from .settings import ModelSettings, ServerSettings, keep_alive_of, settings_from_params

__all__ = [
    "add_model_arguments",
    "add_network_arguments",
    "add_repository_arguments",
    "add_server_arguments",
    "settings_of_arguments",
]

_NETWORK_PORT = 8000
_NETWORK_FIELDS = (
    "networks",
    "repository",
    "explicit",
    "workers",
    "core_mask",
    "window_ms",
    "allow_upload",
    "upload_dir",
    "upload_bytes",
    "upload_models",
    "queue_bytes",
    "llm_repository",
    "llm_models",
    "llm_bytes",
    "allow_manage",
)
_MODEL_HELP = {
    "weight": "its weights; beside the model by default",
    "model2": "the encoder of images (.rknn)",
    "weight2": "weights of the encoder of images",
    "model3": "the encoder of audio (.rknn)",
    "weight3": "weights of the encoder of audio",
    "vocab": "the tokenizer (.gguf); beside the model by default",
    "embed": "the embeddings (.bin); beside the model by default",
    "mel-filter": "filters of the encoder of audio",
    "img-start": "text before the tokens of an image",
    "img-end": "text behind them",
    "img-content": "text of one token of an image",
    "img-width": "width of images, in pixels",
    "img-height": "height of images, in pixels",
    "audio-start": "text before the tokens of a sound",
    "audio-end": "text behind them",
    "audio-content": "text of one token of a sound",
    "chat-template-file": "a Jinja template instead of the model's own",
    "device-id": "which coprocessor",
    "draft": "a smaller model of the same vocabulary, which guesses tokens ahead: PREFIX",
    "lora": "adapters: a folder as PEFT saves it, or one of such folders",
}
_SHORT = {"ctx-size": ["-c"], "predict": ["-n", "--n-predict", "--n_predict"], "alias": ["-a"]}
_NUMBERS = {
    "ctx-size": "tokens of context; 0: as many as the model has",
    "predict": "tokens of an answer at most; -1: as many as fit",
    "temp": "temperature where a request names none",
    "top-k": "likeliest tokens that are drawn from; 0: all",
    "top-p": "share of probability that is drawn from; 1.0: all",
    "repeat-penalty": "1.0: none",
    "presence-penalty": "0.0: none",
    "frequency-penalty": "0.0: none",
    "speculate": "tokens that are guessed ahead at most, 0 to 15; -1: 4 with --draft, else 0",
    "lora-scale": "what adapters are multiplied by",
}


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything about one model but its own path."""
    defaults = {item.name: item.default for item in fields(ModelSettings)}
    for name, text in _MODEL_HELP.items():
        kind: type = int if name in ("img-width", "img-height") else str
        parser.add_argument(f"--{name}", type=kind, metavar="PX" if kind is int else "TEXT", help=text)
    for name, text in _NUMBERS.items():
        default: Any = defaults[name.replace("-", "_")]
        words = [*_SHORT.get(name, []), f"--{name}"]
        parser.add_argument(
            *words,
            dest=name.replace("-", "_"),
            type=type(default),
            metavar="N",
            help=f"{text} (default: {default})",
        )
    parser.add_argument(
        "-a", "--alias", metavar="NAME", help="what clients call the model; its path by default"
    )
    parser.add_argument("--embedding", action="store_true", help="the model makes embeddings")


def add_network_arguments(parser: argparse.ArgumentParser) -> None:
    """Networks behind the Open Inference Protocol."""
    default = ServerSettings()
    parser.add_argument(
        "networks", nargs="*", metavar="MODEL", help="networks to serve (.rknn, or what a plugin runs)"
    )
    parser.add_argument(
        "--repository",
        metavar="DIR",
        default="",
        help="a folder of networks that clients may load and unload",
    )
    parser.add_argument(
        "--explicit",
        action="store_true",
        help="load networks of the repository when clients ask, not at start",
    )
    parser.add_argument(
        "--grpc-port",
        type=int,
        metavar="N",
        help=f"port of gRPC (default: {default.grpc_port}; 0: any; -1: none)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        default=default.workers,
        help="contexts per network; one per NPU core by default",
    )
    parser.add_argument(
        "--core-mask",
        metavar="MASK",
        default=default.core_mask,
        help=f"spread, auto, all, a mask, or one mask per worker: 1,2,4 (default: {default.core_mask})",
    )
    parser.add_argument(
        "--window-ms",
        type=float,
        metavar="MS",
        default=default.window_ms,
        help=f"time that rows of a batch wait for each other (default: {default.window_ms:g})",
    )
    parser.add_argument(
        "--queue-bytes",
        type=int,
        metavar="BYTES",
        default=default.queue_bytes,
        help=f"memory of requests that are read, wait or run (default: {default.queue_bytes})",
    )
    parser.add_argument(
        "--allow-upload", action="store_true", help="clients may send networks, which run here"
    )
    parser.add_argument(
        "--upload-dir",
        metavar="DIR",
        default="",
        help="where those are kept; a folder of the user's cache by default",
    )
    parser.add_argument(
        "--upload-bytes",
        type=int,
        metavar="BYTES",
        default=default.upload_bytes,
        help=f"how much of them is kept (default: {default.upload_bytes})",
    )
    parser.add_argument(
        "--upload-models",
        type=int,
        metavar="N",
        default=default.upload_models,
        help=f"how many of them are open at a time (default: {default.upload_models})",
    )


def add_repository_arguments(parser: argparse.ArgumentParser) -> None:
    """Language models that come and go."""
    default = ServerSettings()
    parser.add_argument(
        "--llm-repository",
        metavar="DIR",
        default="",
        help="a folder of language models (packages, .rkllm, .gguf, Hugging Face folders), which are loaded when clients ask them",
    )
    parser.add_argument(
        "--llm-models",
        type=int,
        metavar="N",
        default=default.llm_models,
        help=f"how many of them are loaded at a time (default: {default.llm_models})",
    )
    parser.add_argument(
        "--llm-bytes",
        type=int,
        metavar="BYTES",
        default=default.llm_bytes,
        help="memory of those that are loaded; 0: any (default: 0)",
    )
    parser.add_argument(
        "--keep-alive",
        metavar="TIME",
        default=f"{default.keep_alive:g}",
        help="how long a model stays that nobody asks: seconds, 5m, 1h; -1: until there is no room (default: 300)",
    )
    parser.add_argument(
        "--allow-manage",
        action="store_true",
        help="clients of other machines, too, may pull, create and delete models",
    )
    parser.add_argument(
        "--allow-pull",
        action="append",
        metavar="HOST",
        default=[],
        help="clients may have models fetched from this host, though it has no public address; * for all; repeatable",
    )


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Addresses, keys and limits."""
    default = ServerSettings()
    parser.add_argument(
        "--host", default=default.host, help=f"address to listen on (default: {default.host})"
    )
    parser.add_argument(
        "--port",
        type=int,
        help=f"port (default: {_NETWORK_PORT} with networks, else {default.port}; 0: any)",
    )
    parser.add_argument(
        "-to",
        "--timeout",
        type=float,
        default=default.timeout,
        metavar="S",
        help=f"seconds that an answer may take (default: {default.timeout:g})",
    )
    parser.add_argument(
        "--parallel",
        type=int,
        default=default.parallel,
        metavar="N",
        help=f"answers of a model at a time, each with a KV cache of its own (default: {default.parallel})",
    )
    parser.add_argument(
        "--queue",
        type=int,
        default=default.queue,
        metavar="N",
        help=f"requests that may wait (default: {default.queue})",
    )
    parser.add_argument(
        "--api-key-file",
        metavar="FILE",
        help="keys that clients must have one of, a line each, with their limits; may be changed at any time",
    )
    parser.add_argument(
        "--audit-file", metavar="FILE", default="", help="gets a line of JSON for each administrative call"
    )
    parser.add_argument(
        "--batch-dir", metavar="DIR", default="", help="keep files and batches there, and compute them"
    )
    parser.add_argument(
        "--batch-bytes",
        type=int,
        metavar="BYTES",
        default=default.batch_bytes,
        help=f"how much clients may keep there (default: {default.batch_bytes})",
    )
    kept = f"how long, from their end on; 0: for ever (default: {default.batch_days:g})"
    parser.add_argument("--batch-days", type=float, metavar="DAYS", default=default.batch_days, help=kept)
    parser.add_argument("--tls-cert", metavar="FILE", default="", help="certificate for https, PEM")
    parser.add_argument("--tls-key", metavar="FILE", default="", help="its key, PEM")
    parser.add_argument(
        "--allow-origin",
        "--cors",
        dest="cors",
        action="append",
        metavar="ORIGIN",
        default=[],
        help="web pages from there may ask (https://page.example; * for all); repeatable",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        metavar="NAME",
        default=[],
        help="a name of this machine, or of a proxy, by which a server without keys may be called; repeatable",
    )
    parser.add_argument("--metrics", action="store_true", help="figures for Prometheus at /metrics")
    parser.add_argument(
        "--traces",
        nargs="?",
        const="",
        metavar="URL",
        help="send OpenTelemetry's traces to this collector (OTLP over HTTP); without URL as OTEL_* say",
    )
    parser.add_argument(
        "--insecure", action="store_true", help="listen on other addresses than loopback without keys"
    )
    parser.add_argument(
        "--max-body",
        type=int,
        default=default.max_body,
        metavar="BYTES",
        help=f"size of a request (default: {default.max_body})",
    )
    parser.add_argument(
        "--response-bytes",
        type=int,
        metavar="BYTES",
        default=default.response_bytes,
        help=f"responses that are kept to go on from, the oldest leave (default: {default.response_bytes})",
    )
    parser.add_argument(
        "--params-file",
        metavar="FILE",
        help="JSON with host, port, timeout, models, llm-repository and what belongs to it; replaces those arguments",
    )
    parser.add_argument(
        "--log-level", type=int, default=0, metavar="N", help="0 (errors) to 4 (everything) (default: 0)"
    )
    parser.add_argument("--backend", metavar="NAME", help="cpu, rknn3rt, ...; the best one by default")


def settings_of_arguments(args: argparse.Namespace, models: list[str]) -> ServerSettings:
    """The settings of a command line for these models; raises ParamInvalid."""
    base = ServerSettings(
        host=args.host,
        port=_port(args, models),
        timeout=args.timeout,
        parallel=args.parallel,
        queue=args.queue,
        api_key_file=_key_file(args.api_key_file),
        audit_file=args.audit_file,
        batch_dir=args.batch_dir,
        batch_bytes=args.batch_bytes,
        batch_days=args.batch_days,
        tls_cert=args.tls_cert,
        tls_key=args.tls_key,
        cors=tuple(args.cors),
        allow_hosts=tuple(args.allow_host),
        allow_pull=tuple(args.allow_pull),
        metrics=args.metrics,
        traces=args.traces,
        insecure=args.insecure,
        max_body=args.max_body,
        response_bytes=args.response_bytes,
        backend=args.backend or "",
        device_id=args.device_id or "",
        speech=tuple(args.speech),
        **{name: getattr(args, name) for name in _NETWORK_FIELDS},
    )
    given = {
        item.name: getattr(args, item.name)
        for item in fields(ModelSettings)
        if item.default is not MISSING and getattr(args, item.name, None) is not None
    }
    defaults = replace(ModelSettings("", **given), alias="")
    base = replace(
        base,
        networks=tuple(base.networks),
        keep_alive=keep_alive_of(args.keep_alive, "--keep-alive"),
        llm_defaults=defaults,
    )
    if args.grpc_port is not None:
        base = replace(base, grpc_port=args.grpc_port, grpc_needed=args.grpc_port >= 0)
    if args.params_file:
        return settings_from_params(args.params_file, base)
    if not (models or base.speech or base.serves_networks or base.llm_repository):
        raise ParamInvalid(
            "name a network (MODEL), a language model (--llm PREFIX), a speech model (--speech DIR), a folder of networks "
            "(--repository DIR) or of language models (--llm-repository DIR), or a file of parameters (--params-file)"
        )
    if len(models) > 1 and given.get("alias"):
        raise ParamInvalid("--alias with several models; name them in a file of parameters (--params-file)")
    made = tuple(ModelSettings(model=_model_file(model), **given) for model in models)
    return ServerSettings(**{**vars(base), "models": made}).checked()


def _port(args: argparse.Namespace, models: list[str]) -> int:
    if args.port is not None:
        return int(args.port)
    networks = args.networks or args.repository or args.allow_upload
    return _NETWORK_PORT if networks else ServerSettings().port


def _model_file(given: str) -> str:
    """``PREFIX`` stands for ``PREFIX.rknn``."""
    beside = Path(f"{given}.rknn")
    return str(beside) if not given.isdigit() and not Path(given).is_file() and beside.is_file() else given


def _key_file(path: str | None) -> str:
    """The path of a file that holds a key; empty where none was named. Raises ParamInvalid."""
    if path is None:
        return ""
    read_keys(path)
    return path
