"""What a server tells about itself: the protocol's statistics over REST and gRPC, and figures for Prometheus."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc")
pytest.importorskip("tritonclient.http")
pytest.importorskip("prometheus_client")

import grpc
import tritonclient.grpc
import tritonclient.http
from rknnlite_protocol.requests import Timing
from rknnlite_server.networks.figures import NetworkFigures
from rknnlite_server.networks.statistics import BOUNDS, Distribution, Statistics

from rknnlite.native.board import Board

from ..conftest import until
from ..test_metrics import figures, grown
from .conftest import BATCH, RESNET, Networks, inputs_of


def test_parts_of_a_run() -> None:
    found = Statistics()
    first, second = Timing(1000, 1010, 1110, 1115), Timing(2000, 2001, 2011, 2012)
    found.ran(first, 3)
    found.answered(400, first)
    found.answered(700, first)
    found.ran(second, 1)
    found.answered(1990, second)
    found.failed(0)
    assert (found.inference_count, found.execution_count) == (4, 2)
    fields = found.fields("m")
    stats = fields["inference_stats"]
    assert stats["queue"] == {"count": 3, "ns": 600 + 300 + 10}
    assert stats["compute_infer"] == {"count": 3, "ns": 210} and stats["compute_input"]["ns"] == 21
    assert stats["success"]["count"] == 3 and stats["fail"]["count"] == 1 and stats["fail"]["ns"] > 0
    assert [(b["batch_size"], b["compute_infer"]) for b in fields["batch_stats"]] == [
        (1, {"count": 1, "ns": 10}),
        (3, {"count": 1, "ns": 100}),
    ]


def test_classes_of_times() -> None:
    found = Distribution()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] * 1.01, 1e9):
        found.add(seconds)
    assert found.counts[:2] == [2, 1] and found.counts[-1] == 1 and sum(found.counts) == 4


def ask(networks: Networks, name: str, rows: int, good: bool = True) -> None:
    ((input_name, array),) = inputs_of(name).items()
    with tritonclient.http.InferenceServerClient(networks.url[7:]) as client:
        given = tritonclient.http.InferInput(input_name, [rows, *array.shape[1:]], "FP32")
        given.set_data_from_numpy(array[:rows] if good else np.full_like(array[:rows], np.nan))
        if good:
            client.infer(name, [given])
        else:
            with pytest.raises(Exception, match="NaN"):
                client.infer(name, [given])


def test_both_clients_read_the_same(networks: Networks) -> None:
    with tritonclient.http.InferenceServerClient(networks.url[7:]) as http:
        (before,) = http.get_inference_statistics(BATCH)["model_stats"]
        ask(networks, BATCH, 3)
        ask(networks, BATCH, 4)
        ask(networks, BATCH, 1, good=False)
        (after,) = http.get_inference_statistics(BATCH, "1")["model_stats"]
        names = [entry["name"] for entry in http.get_inference_statistics()["model_stats"]]
    assert set(names) >= {BATCH, RESNET} and len(names) == len(set(names))
    assert after["inference_count"] - before["inference_count"] == 7
    assert after["execution_count"] - before["execution_count"] == 2
    assert after["last_inference"] > 1_600_000_000_000
    for key, more in (("success", 2), ("fail", 1), ("queue", 2), ("compute_infer", 2)):
        old, new = before["inference_stats"][key], after["inference_stats"][key]
        assert new["count"] - old["count"] == more and new["ns"] > old["ns"]
    sizes = {entry["batch_size"]: entry["compute_infer"]["count"] for entry in after["batch_stats"]}
    assert sizes[3] >= 1 and sizes[4] >= 1
    with tritonclient.grpc.InferenceServerClient(networks.grpc) as client:
        (same,) = client.get_inference_statistics(BATCH, as_json=False).model_stats
        everything = client.get_inference_statistics().model_stats
    assert same.inference_stats.success.count == after["inference_stats"]["success"]["count"]
    assert same.inference_count == after["inference_count"] and [e.name for e in everything] == names
    assert [entry.batch_size for entry in same.batch_stats] == [e["batch_size"] for e in after["batch_stats"]]


def test_statistics_of_an_unknown_network(networks: Networks) -> None:
    assert networks.http.get("/v2/models/none/stats").status_code == 404
    with (
        tritonclient.grpc.InferenceServerClient(networks.grpc) as client,
        pytest.raises(Exception, match="NOT_FOUND"),
    ):
        client.get_inference_statistics("none")


# -- Prometheus -----------------------------------------------------------------------------------------------


def test_networks_have_figures(networks: Networks) -> None:
    before = figures(networks.served)
    ask(networks, BATCH, 3)
    ask(networks, BATCH, 1, good=False)

    def more(name: str) -> float:
        return grown(networks.served, before, f"rknnlite_network_{name}")

    assert more(f"requests_total model={BATCH}") == 2 and more(f"failed_total model={BATCH}") == 1
    assert more(f"runs_total model={BATCH} rows=3") == 1
    for name in ("queue_seconds", "run_seconds"):
        assert more(f"{name}_count model={BATCH}") == 1 and more(f"{name}_sum model={BATCH}") > 0
        assert more(f"{name}_bucket le=+Inf model={BATCH}") == 1
    found = figures(networks.served)
    assert found[f"rknnlite_network_running model={BATCH}"] == 0
    assert found[f"rknnlite_network_waiting model={BATCH}"] == 0
    assert found[f"rknnlite_network_workers_replaced_total model={BATCH}"] == 0


def test_grpc_calls_are_counted_as_http_ones_are(networks: Networks) -> None:
    before = figures(networks.served)
    service = "/inference.GRPCInferenceService"
    with tritonclient.grpc.InferenceServerClient(networks.grpc) as client:
        client.is_server_live()
        client.get_model_metadata(RESNET)
        for _ in range(2):
            with pytest.raises(Exception, match="NOT_FOUND"):
                client.get_model_metadata("none")
    with grpc.insecure_channel(networks.grpc) as channel:
        for number in range(3):
            with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
                channel.unary_unary(f"/made.up.Service{number}/Call")(b"")

    def more(labels: str) -> float:
        return grown(networks.served, before, f"rknnlite_requests_total {labels}")

    until(lambda: more("route=other status=UNIMPLEMENTED") == 3)
    until(lambda: more(f"route={service}/ModelMetadata status=NOT_FOUND") == 2)
    assert more(f"route={service}/ModelMetadata status=OK") == 1
    assert more(f"route={service}/ServerLive status=OK") == 1
    assert grown(networks.served, before, f"rknnlite_request_seconds_count route={service}/ServerLive") == 1
    routes = {name.split(" ")[1] for name in figures(networks.served) if "requests_total" in name}
    assert not any("made" in route for route in routes)


def test_the_board_as_far_as_its_kernel_tells(tmp_path: Path) -> None:
    def families(root: Path) -> dict[str, list[Any]]:
        made = NetworkFigures(list, Board(root))
        return {family.name: family.samples for family in made.collect() if "network" not in family.name}

    assert families(tmp_path) == {}
    files = {
        "sys/kernel/debug/rknpu/load": "NPU load:  Core0: 12%, Core1:  0%, Core2: 97%,\n",
        "sys/class/thermal/thermal_zone0/type": "npu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": "41615\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = families(tmp_path)
    load = found["rknnlite_npu_load_percent"]
    assert [(sample.labels["core"], sample.value) for sample in load] == [("0", 12), ("1", 0), ("2", 97)]
    (zone,) = found["rknnlite_temperature_celsius"]
    assert zone.labels["zone"] == "npu-thermal" and zone.value == pytest.approx(41.615)


def test_workers_that_were_replaced_are_counted() -> None:
    workers = [SimpleNamespace(replaced=2), SimpleNamespace(replaced=1)]
    network: Any = SimpleNamespace(
        name="m", statistics=Statistics(), turnstile=SimpleNamespace(running=1, waiting=2),
        pool=SimpleNamespace(stats=lambda: SimpleNamespace(workers=workers)),
    )  # fmt: skip
    found = {
        family.name: family for family in NetworkFigures(lambda: [network], Board(Path("/none"))).collect()
    }
    assert found["rknnlite_network_workers_replaced"].samples[0].value == 3
    assert found["rknnlite_network_waiting"].samples[0].value == 2
