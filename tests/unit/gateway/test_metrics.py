"""`/metrics`, as Prometheus reads it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from lemonpod.gateway.exposition import Family, exposition
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.gateway.tally import BOUNDS, Distribution
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import ok
from tests.unit.gateway.world import Starter, World

SAMPLE = re.compile(r'([a-z_:][a-z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*\})? (-?[0-9.e+-]+|[+-]Inf)')
CHAT = {"model": "m", "messages": []}


async def engine(connection: Connection) -> None:
    await connection.request()
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    await connection.send(ok(json.dumps({"choices": [], "usage": usage}).encode()))


async def scraped(world: World) -> dict[str, float]:
    """Every sample by its name and labels; fails for a line that is none of the format's."""
    reply = await world.get("/metrics")
    assert reply.status == 200
    assert reply.value("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[str, float] = {}
    described: set[str] = set()
    for line in reply.body.decode().splitlines():
        if line.startswith("#"):
            described.add(line.split(" ")[2])
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        assert {match[1], re.sub("_(bucket|sum|count)$", "", match[1])} & described, line
        key = match[1] + (match[2] or "")
        assert key not in found
        found[key] = float(match[3])
    return found


async def test_a_server_without_models(start: Starter) -> None:
    found = await scraped(await start(engine))

    assert found["lemonade_server_up"] == 1
    assert found["lemonade_loaded_models"] == 0
    assert found["lemonade_requests_total"] == 0
    assert found['lemonade_max_loaded_models{type="llm"}'] == -1
    assert found["lemonpod_rejected_manifests"] == 0
    assert found["lemonade_memory_used_gb"] > 0


async def test_the_page_lists_every_family(start: Starter) -> None:
    world = await start(engine)
    await world.post("/v1/chat/completions", CHAT)
    page = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text("utf-8")
    documented = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", page, re.MULTILINE))

    reply = await world.get("/metrics")

    told = dict(re.findall(r"^# TYPE (\w+) (\w+)$", reply.body.decode(), re.MULTILINE))
    assert told.items() <= documented.items()
    # What an engine does not tell, and what drivers would have to be asked for.
    assert documented.keys() - told.keys() <= {
        "lemonade_model_time_to_first_token_seconds",
        "lemonade_model_tokens_per_second",
        "lemonade_gpu_usage_percent",
        "lemonade_vram_used_gb",
        "lemonade_npu_usage_percent",
    }


async def test_requests_tokens_and_loads_are_counted_for_their_model(start: Starter) -> None:
    world = await start(engine)
    for name in ("m", "user.m", "m:latest"):
        assert (await world.post("/v1/chat/completions", CHAT | {"model": name})).status == 200
    await world.post("/v1/chat/completions", CHAT | {"model": "of-no-model"})

    found = await scraped(world)

    labels = (
        '{model_name="user.m",checkpoint="org/repo:model.gguf",type="llm",device="cpu",recipe="test-engine"}'
    )
    assert found["lemonade_requests_total"] == 4
    assert found[f"lemonade_model_requests_total{labels}"] == 3
    assert found[f"lemonade_model_loaded{labels}"] == 1
    assert found[f"lemonade_model_input_tokens{labels}"] == 7
    assert found[f"lemonade_model_input_tokens_total{labels}"] == 21
    assert found[f"lemonade_model_output_tokens_total{labels}"] == 9
    assert found[f"lemonade_model_cache_tokens_total{labels}"] == 6
    assert found['lemonpod_requests_total{model_name="user.m",ending="complete"}'] == 3
    assert found['lemonpod_loads_total{model_name="user.m"}'] == 1
    assert found['lemonpod_load_failures_total{model_name="user.m"}'] == 0
    assert found['lemonpod_request_seconds_count{model_name="user.m"}'] == 3
    assert found['lemonpod_load_seconds_count{model_name="user.m"}'] == 1
    assert found['lemonpod_model_state{model_name="user.m",state="ready"}'] == 1
    assert found['lemonpod_requests_in_flight{model_name="user.m"}'] == 0
    assert not any("of-no-model" in name for name in found)


async def test_what_was_counted_outlives_the_engine(start: Starter) -> None:
    world = await start(engine)
    for _ in range(2):
        await world.post("/v1/chat/completions", CHAT)
        await world.post("/v1/unload", {"model": "m"})

    found = await scraped(world)

    assert found['lemonpod_loads_total{model_name="user.m"}'] == 2
    assert found['lemonpod_crashes_total{model_name="user.m"}'] == 0
    assert found['lemonpod_requests_total{model_name="user.m",ending="complete"}'] == 2
    assert found["lemonade_loaded_models"] == 0


async def test_failed_loads_are_counted(start: Starter) -> None:
    world = await start(engine, models={"odd": {"checkpoint": "org/repo:x.gguf", "recipe": "no-such"}})

    await world.post("/v1/load", {"model_name": "odd"})

    assert (await scraped(world))['lemonpod_load_failures_total{model_name="user.odd"}'] == 1


async def test_the_key_opens_it(start: Starter) -> None:
    world = await start(engine, settings=GatewaySettings(api_key="k", admin_api_key="a"))

    assert (await world.get("/metrics")).status == 401
    assert (await world.get("/metrics", Authorization="Bearer k")).status == 200
    assert (await world.get("/metrics", Authorization="Bearer a")).status == 200


def test_labels_are_escaped() -> None:
    family = Family("gauge", "x", "Text.")
    family.add(1, {"name": 'a"b\\c\nd\udc80'})

    assert exposition([family]) == '# HELP x Text.\n# TYPE x gauge\nx{name="a\\"b\\\\c\\nd?"} 1\n'


def test_what_is_unknown_is_left_out() -> None:
    family = Family("gauge", "x", "Text.")
    family.add(None)

    assert exposition([family]) == ""


def test_a_histogram_is_cumulative() -> None:
    distribution = Distribution()
    for seconds in (0.001, BOUNDS[0], BOUNDS[0] + 0.001, 1e9, None):
        distribution.add(seconds)
    family = Family("histogram", "x", "Text.")
    family.add_histogram(BOUNDS, distribution.counts, distribution.total, {})

    lines = exposition([family]).splitlines()

    assert lines[2] == f'x_bucket{{le="{BOUNDS[0]}"}} 2'
    assert lines[3] == f'x_bucket{{le="{BOUNDS[1]}"}} 3'
    assert lines[-3] == 'x_bucket{le="+Inf"} 4'
    assert lines[-1] == "x_count 4"
