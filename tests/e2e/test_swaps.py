"""Two real models that exclude each other, and 40 clients that want both."""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from tests.e2e.conftest import CHECKPOINT, RECIPE, LemonpodServer, manifest

CLIENTS: Final = 40
REQUESTS: Final = 10
"""Of each client."""
TURN: Final = 2.0
WAIT: Final = 15.0
EXCLUSIVE: Final = {
    "slot_policy": "exclusive_npu",
    "default_accelerator": "npu",
    "platforms": {"linux": {"npu": manifest()["platforms"]["linux"]["cpu"]}},
}


def configure(server: LemonpodServer, **more: Any) -> None:
    """Start the server anew, with further settings and with `user.one` and `user.two`."""
    server.stop()
    path = server.config / "config.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    ours = more.pop("lemonpod", {})
    path.write_text(json.dumps(document | more | {"lemonpod": document["lemonpod"] | ours}), encoding="utf-8")
    entry = {"checkpoint": CHECKPOINT, "recipe": RECIPE}
    server.write_models(one=entry, two=entry)
    server.start()


@pytest.mark.parametrize("excluded_by", ["limit", "npu"])
def test_forty_clients_between_two_models(lemonpod_server: LemonpodServer, excluded_by: str) -> None:  # L23
    server = lemonpod_server
    if excluded_by == "npu":
        server.write_manifest(manifest(**EXCLUSIVE))
    configure(
        server,
        max_loaded_models=1 if excluded_by == "limit" else -1,
        lemonpod={"swap_turn": TURN, "swap_wait": WAIT},
    )

    def client(number: int) -> list[float]:
        chance, took = random.Random(number), []
        for _ in range(REQUESTS):
            begun = time.monotonic()
            model = chance.choice(["one", "two"])
            body = {"model": model, "prompt": "the lemon", "max_tokens": 8, "ignore_eos": True}
            answer = server.post("/v1/completions", body)
            assert answer["model"] == model
            assert answer["usage"]["completion_tokens"] == 8
            took.append(time.monotonic() - begun)
        return took

    with ThreadPoolExecutor(CLIENTS) as clients:
        took = [seconds for one in clients.map(client, range(CLIENTS)) for seconds in one]

    records = server.get("/internal/activity?tail=1000")["requests"]
    waits = [(record["queue_ms"] or 0.0) / 1000 for record in records]
    swaps = server.log.count(" is ready at ")
    print(
        f"\n{excluded_by}: {len(took)} requests, {swaps} swaps ({swaps / len(took):.1%}), longest request "
        f"{max(took):.1f} s, longest wait for a place {max(waits):.1f} s of {WAIT:.0f} s"
    )
    assert {record["status"] for record in records} == {200}
    assert len(records) == len(took) == CLIENTS * REQUESTS
    assert swaps <= len(took) / 3
    assert max(waits) <= WAIT
