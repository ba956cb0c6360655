"""A replica by itself: which paths are its own, and when Serve is to replace it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rknnlite.errors import InputInvalid, RknnError, RunTimeout
from tests.support.corpus import genuine

requests = pytest.importorskip("starlette.requests")

from rknnlite_ray import replica as module  # noqa: E402
from rknnlite_ray.results import _without  # noqa: E402


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch) -> Iterator[module.Replica]:
    monkeypatch.setattr(module, "_processors", lambda: 1)
    made = module.Replica(genuine("conv_1x1.rk3588.i8"), "conv", "cpu", "auto", 1 << 20)
    yield made
    made.close()


def ask(replica: module.Replica, method: str, path: str, root: str = "", body: bytes = b"") -> Any:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {
        "type": "http", "method": method, "path": path, "root_path": root, "headers": [], "query_string": b"",
        "server": ("here", 80), "scheme": "http",
    }  # fmt: skip
    return asyncio.run(replica(requests.Request(scope, receive)))


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/v2/models/conv", ""),
        ("/fleet/v2/models/conv", "/fleet"),
        ("/v2/models/conv", "/fleet"),
        ("/v2/models/conv", "/v2/models/conv"),
        ("/v2/models/conv/", "/"),
        ("/v2/models/%63onv", ""),
    ],
)
def test_an_application_may_be_put_anywhere(replica: module.Replica, path: str, root: str) -> None:
    answered = ask(replica, "GET", path, root)
    assert answered.status_code == 200 and json.loads(answered.body)["name"] == "conv"


BODY = json.dumps(
    {"inputs": [{"name": "in0", "datatype": "UINT8", "shape": [1, 9, 11, 20], "data": [1] * 1980}]}
).encode()


@pytest.mark.parametrize(
    ("error", "status", "broken"),
    [(RunTimeout, 504, True), (InputInvalid, 400, False), (RknnError, 500, True)],
)
def test_a_replica_whose_npu_failed_says_so(
    replica: module.Replica, monkeypatch: pytest.MonkeyPatch, error: Any, status: int, broken: bool
) -> None:
    def fail(*arguments: Any) -> None:
        raise error("the NPU did not answer")

    replica.check_health()
    monkeypatch.setattr(module, "answer", fail)
    answered = ask(replica, "POST", "/v2/models/conv/infer", body=BODY)
    assert (answered.status_code, answered.headers["rknnlite-error"]) == (status, error.__name__)
    assert json.loads(answered.body) == {"error": "the NPU did not answer"}
    if broken:
        with pytest.raises(error):
            replica.check_health()
    else:
        replica.check_health()


@pytest.mark.parametrize("keys", [["a", "bc", "d"], [7, 8, 9]])
def test_rows_that_are_done_are_left_out_whatever_their_keys_are(keys: list[Any]) -> None:
    for kind in (None, object):
        batch = {"id": np.array(keys, kind), "x": np.arange(3)}
        assert _without(batch, "id", np.array(keys[:2]))["x"].tolist() == [2]
