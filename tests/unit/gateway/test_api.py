"""The server's own answers: their shapes are Lemonade's."""

# Long because it is the list of the fixed routes, each with its whole answer.

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lemonpod
from lemonpod.engine.api import ExitStatus
from lemonpod.errors import EngineUnhealthyError
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.gateway.system_api import _storage
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import message, ok
from tests.unit.gateway.world import ENGINE_SETTINGS, RECIPE, Starter, World
from tests.users import bound_by_modes, open_folder

CHAT = "/v1/chat/completions"
MODEL = {"checkpoint": "org/repo:x.gguf", "recipe": RECIPE}


async def answer(connection: Connection) -> None:
    await connection.request()
    await connection.send(ok(b"{}"))


def download(world: World) -> None:
    """Put the file of `user.m` where the Hugging Face cache has it."""
    repo = world.folder / "hub/models--org--repo"
    (repo / "snapshots/s").mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs/main").write_text("s")
    (repo / "snapshots/s/model.gguf").write_bytes(b"GGUF" + bytes(100))


# --- live, health -----------------------------------------------------------------------------------------


async def test_live(start: Starter) -> None:
    assert (await (await start(answer)).get("/live")).json == {"status": "ok"}


async def test_health_of_an_idle_server(start: Starter) -> None:
    world = await start(answer)

    kinds = ["llm", "embedding", "reranking", "transcription", "image", "tts", "classification"]
    assert (await world.get("/api/v1/health")).json == {
        "status": "ok",
        "version": lemonpod.__version__,
        "telemetry": {"enabled": False},
        "model_loaded": None,
        "all_models_loaded": [],
        "failed_models": [],
        "max_models": dict.fromkeys(kinds, -1),
        "pinned_models": dict.fromkeys(kinds, 0),
        "pinned_helper_models": dict.fromkeys(kinds, 0),
        "update_check_done": True,
        "websocket_port": world.port,
    }


async def test_health_of_a_loaded_model(start: Starter) -> None:
    world = await start(answer, labels=["chat"])
    await world.post("/v1/load", {"model_name": "m", "ctx_size": 512, "pinned": True})

    health = (await world.get("/v1/health")).json

    item = health["all_models_loaded"][0]
    port = world.driver.engines[0].plan.endpoint.port
    assert health["model_loaded"] == "user.m"
    assert health["pinned_models"] == dict.fromkeys(health["max_models"], 0) | {"llm": 1}
    assert abs(item.pop("last_use") / 1000 - time.time()) < 60
    assert item.pop("recipe_options")["ctx_size"] == 512
    assert item == {
        "model_name": "user.m",
        "checkpoint": "org/repo:model.gguf",
        "type": "llm",
        "residency_class": "standard",
        "slot_pool": "standard",
        "device": "cpu",
        "backend_url": f"http://127.0.0.1:{port}/v1",
        "pid": 1,
        "launch_command": ["/opt/engine", "--port", str(port)],
        "status": "ready",
        "backend_alive": True,
        "backend_health": "ready",
        "loaded": True,
        "watchdog_reset": False,
        "reason": None,
        "driver": "process",
        "by_cli": None,
        "progress": None,
        "trouble": None,
        "retry_after": None,
        "pinned": True,
        "recipe": RECIPE,
        "is_busy": False,
        "queued_requests": 0,
        "is_streaming": False,
    }


async def test_health_tells_no_secret_of_a_command_line(start: Starter) -> None:
    args = ["--port", "{port}", "--api-key", "s3cret", "-e", "HF_TOKEN=s3cret", "--max-tokens", "8"]
    world = await start(answer, platforms={"linux": {"cpu": {"command": "/opt/engine", "args": args}}})
    await world.post("/v1/load", {"model_name": "m"})

    reply = await world.get("/v1/health")

    command = reply.json["all_models_loaded"][0]["launch_command"]
    assert command[3:] == ["--api-key", "…", "-e", "HF_TOKEN=…", "--max-tokens", "8"]
    assert "s3cret" in world.driver.engines[0].plan.spec.argv


async def test_health_tells_the_most_recently_used(start: Starter) -> None:
    world = await start(answer, models={"n": MODEL})
    for model in ("m", "n", "m"):
        await world.post(CHAT, {"model": model})

    assert (await world.get("/v1/health")).json["model_loaded"] == "user.m"


async def test_a_crashed_engine_is_not_loaded_but_told_of(start: Starter) -> None:
    world = await start(answer)
    await world.post(CHAT, {"model": "m"})
    world.driver.engines[0].die(ExitStatus(signal=11))
    await world.until(lambda: world.pool.statuses()[0].failure is not None)

    health = (await world.get("/v1/health")).json

    assert (health["model_loaded"], health["all_models_loaded"]) == (None, [])
    failed = health["failed_models"][0]
    assert (failed["model_name"], failed["status"], failed["loaded"]) == ("user.m", "unloaded", False)
    assert (failed["backend_alive"], failed["backend_health"]) == (False, "exited")
    assert "SIGSEGV" in failed["reason"]


async def test_an_engine_that_the_watchdog_ended_says_so(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def finds_it_dead(*_: object, **__: object) -> None:
        raise EngineUnhealthyError("it did not answer 3 times in a row")

    monkeypatch.setattr("lemonpod.engine.life.watch", finds_it_dead)
    monkeypatch.setattr("tests.unit.gateway.world.ENGINE_SETTINGS", replace(ENGINE_SETTINGS, watchdog=True))
    world = await start(answer)
    await world.post("/v1/load", {"model": "m"})
    await world.until(lambda: world.pool.statuses()[0].failure is not None)

    failed = (await world.get("/v1/health")).json["failed_models"][0]

    assert (failed["backend_health"], failed["watchdog_reset"]) == ("watchdog_reset", True)
    assert "3 times in a row" in failed["reason"]


# --- models -----------------------------------------------------------------------------------------------


async def test_the_list_holds_what_is_here(start: Starter) -> None:
    block = {"command": "engine", "args": ["-m", "{checkpoint:main}"]}
    world = await start(
        answer,
        models={"user.n": MODEL | {"size": 1.5, "labels": ["vision"]}},
        document={"platforms": {"linux": {"cpu": block}}},
    )
    assert (await world.get("/v1/models")).json == {"object": "list", "data": []}

    download(world)

    ids = [item["id"] for item in (await world.get("/v1/models")).json["data"]]
    everything = (await world.get("/v1/models?show_all=true")).json["data"]
    assert ids == ["user.m"]
    assert [(item["id"], item["downloaded"]) for item in everything] == [("user.m", True), ("user.n", False)]
    assert everything[1]["size"] == 1.5
    assert everything[1]["labels"] == ["vision"]


async def test_one_model(start: Starter) -> None:
    world = await start(answer)

    assert (await world.get("/v1/models/m")).json == {
        "id": "user.m",
        "object": "model",
        "created": 1234567890,
        "owned_by": "lemonade",
        "checkpoint": "org/repo:model.gguf",
        "checkpoints": {"main": "org/repo:model.gguf"},
        "recipe": RECIPE,
        "downloaded": True,
        "update_available": False,
        "suggested": False,
        "source": None,
        "registry_source": "huggingface",
        "labels": [],
        "components": [],
        "recipe_options": {},
    }


async def test_ids_round_trip(start: Starter) -> None:  # M15
    world = await start(answer, models={"org/x:Q4": MODEL, "é ?": MODEL})

    for item in (await world.get("/v1/models?show_all=1")).json["data"]:
        assert (await world.post(CHAT, {"model": item["id"]})).status == 200


@pytest.mark.parametrize(
    ("size", "shown"), [(4096, 4096), (-1, None), (0, None), ("auto", None), (True, None)]
)
async def test_a_context_length_is_never_a_sentinel(start: Starter, size: Any, shown: int | None) -> None:
    world = await start(answer, models={"n": MODEL | {"recipe_options": {"ctx_size": size}}})

    assert (await world.get("/v1/models/n")).json.get("context_length") == shown


async def test_the_servers_context_length_holds_where_the_model_says_none(start: Starter) -> None:
    own = MODEL | {"recipe_options": {"ctx_size": 4096}}
    world = await start(answer, models={"n": MODEL, "own": own})
    await world.post("/v1/params", {"ctx_size": 2000})

    lengths = [(await world.get(f"/v1/models/{name}")).json["context_length"] for name in ("n", "own")]

    assert lengths == [2000, 4096]


async def test_the_loaded_context_length_wins(start: Starter) -> None:
    world = await start(answer, models={"n": MODEL | {"recipe_options": {"ctx_size": 4096}}})
    await world.post("/v1/load", {"model_name": "n", "ctx_size": 1024})

    assert (await world.get("/v1/models/n")).json["context_length"] == 1024


async def test_an_unknown_model_is_openais_not_found(start: Starter) -> None:
    reply = await (await start(answer)).get("/v1/models/nope/other")

    assert (reply.status, reply.error["code"], reply.error["requested_model"]) == (
        404,
        "model_not_found",
        "nope/other",
    )


# --- load, unload -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["model_name", "model"])
async def test_load_is_idempotent(start: Starter, field: str) -> None:
    world = await start(answer)

    for _ in range(2):
        reply = await world.post("/v1/load", {field: "m", "ctx_size": 512})
        assert reply.json == {
            "status": "success",
            "model_name": "user.m",
            "checkpoint": "org/repo:model.gguf",
            "recipe": RECIPE,
        }

    assert len(world.driver.engines) == 1


async def test_other_options_load_again(start: Starter) -> None:
    world = await start(answer)
    await world.post("/v1/load", {"model_name": "m", "ctx_size": 512})

    await world.post("/v1/load", {"model_name": "m", "ctx_size": 1024})

    assert [engine.plan.options["ctx_size"] for engine in world.driver.engines] == [512, 1024]
    assert world.driver.engines[0].stopped


async def test_saved_options_hold_for_later_loads(start: Starter) -> None:
    world = await start(answer)
    await world.post("/v1/load", {"model_name": "m", "ctx_size": 512, "save_options": True})
    assert json.loads((world.folder / "recipe_options.json").read_text()) == {"user.m": {"ctx_size": 512}}
    await world.post("/v1/unload", b"")

    await world.post(CHAT, {"model": "m"})
    assert world.driver.engines[1].plan.options["ctx_size"] == 512

    await world.post("/v1/load", {"model_name": "m", "ctx_size": None})
    assert world.driver.engines[2].plan.options["ctx_size"] == 2048


async def test_options_of_a_load_that_failed_are_not_saved(start: Starter) -> None:
    world = await start(answer)
    world.driver.ready.clear()
    loading = asyncio.create_task(
        world.post("/v1/load", {"model_name": "m", "ctx_size": 512, "save_options": True})
    )
    await world.until(lambda: bool(world.driver.engines and world.driver.engines[0].started))
    world.driver.engines[0].die(ExitStatus(code=1))

    assert (await loading).error["code"] == "model_load_error"
    assert not (world.folder / "recipe_options.json").exists()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "Request body is required but was empty"),
        (b"{", "Invalid JSON in request body: "),
        (b"[]", "Invalid JSON in request body: expected an object"),
        (b"{}", "'model_name' parameter is required"),
        (b'{"model_name":7}', "'model_name' must be a string"),
        (b'{"model_name":"m","nope":1}', "recipe 'test-engine' has no option 'nope' (it takes: args, "),
        (b'{"model_name":"m","ctx_size":' + b"9" * 5000 + b"}", "Invalid JSON in request body: "),
        (b'{"model_name":"m","args":"\\ud800"}', "Invalid JSON in request body: "),
        (b'{"model_name":"m","ctx_size":1e999}', "Invalid JSON in request body: "),
        (b'{"model_name":"m","model_name":"n"}', "'model_name' comes twice"),
        (b'{"model_name":"m","save_options":"yes"}', "'save_options' must be true or false"),
    ],
)
async def test_a_bad_load_is_refused(start: Starter, body: bytes, message: str) -> None:  # H21
    world = await start(answer)

    reply = await world.post("/v1/load", body)

    assert reply.status == 400
    assert message in reply.error
    assert not world.driver.engines


@pytest.mark.parametrize("path", ["/v1/load", "/v1/unload"])
async def test_options_that_fill_megabytes_are_none(start: Starter, path: str) -> None:
    reply = await (await start(answer)).post(path, {"model": "m", "args": "x" * (1 << 20)})

    assert reply.status == 413
    assert "262144 bytes" in reply.error["message"]
    assert "max_body" not in reply.error["message"]  # which would change nothing


async def test_load_of_an_unknown_model(start: Starter) -> None:
    assert (await (await start(answer)).post("/v1/load", {"model_name": "x"})).status == 404


async def test_a_reserved_argument_is_named(start: Starter) -> None:
    world = await start(answer, reserved_args=["--port"])

    reply = await world.post("/v1/load", {"model_name": "m", "args": "--port 1"})

    assert reply.status == 500
    assert "collides with a reserved argument" in reply.error["message"]
    assert reply.error["details"]["cause"] == "reserved_argument"


async def test_a_client_that_leaves_its_load_ends_it(start: Starter) -> None:
    world = await start(answer)
    world.driver.ready.clear()
    client = await world.client()
    await client.send(message("POST", "/v1/load", {}, b'{"model_name":"m"}'))
    await world.until(lambda: bool(world.driver.engines))

    client.abort()

    await world.until(lambda: world.driver.engines[0].stopped)


async def test_unload(start: Starter) -> None:
    world = await start(answer, models={"n": MODEL})
    for model in ("m", "n"):
        await world.post(CHAT, {"model": model})

    one = await world.post("/v1/unload", {"model": "m"})
    again = await world.post("/v1/unload", {"model_name": "m"})

    assert one.json == {
        "status": "success",
        "message": "Model unloaded successfully",
        "model_name": "user.m",
    }
    assert (again.status, again.json) == (404, {"error": "Model not loaded: m"})
    assert (await world.post("/v1/unload", {"model": "nope"})).json == {"error": "Model not loaded: nope"}
    assert [engine.stopped for engine in world.driver.engines] == [True, False]


async def test_a_model_that_is_registered_no_more_can_be_unloaded(start: Starter) -> None:
    world = await start(answer, output=["one"])
    await world.post(CHAT, {"model": "m"})
    (world.folder / "user_models.json").write_text("{}")
    assert (await world.get("/v1/models/m")).status == 200  # until the next look at the disk
    assert (await world.get("/v1/models/nope")).status == 404

    assert (await world.get("/v1/health")).json["all_models_loaded"][0]["checkpoint"] == ""
    assert b"one" in (await world.get("/internal/logs?model=user.m")).body
    assert (await world.post("/v1/unload", {"model_name": "user.m"})).status == 200
    assert world.driver.engines[0].stopped


async def test_an_engine_that_cannot_be_ended_is_told_of(start: Starter) -> None:
    world = await start(answer)
    await world.post(CHAT, {"model": "m"})
    world.driver.engines[0].left_behind = "pid 12 (sleep) is still there"

    reply = await world.post("/v1/unload", {"model_name": "m"})

    assert (reply.status, reply.error["type"]) == (500, "process_error")
    assert "pid 12 (sleep)" in reply.error["message"]


async def test_a_null_beside_a_name_does_not_unload_all(start: Starter) -> None:
    world = await start(answer, models={"n": MODEL})
    for model in ("m", "n"):
        await world.post(CHAT, {"model": model})

    reply = await world.post("/v1/unload", {"model_name": None, "model": "m"})

    assert reply.json["model_name"] == "user.m"
    assert [engine.stopped for engine in world.driver.engines] == [True, False]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"model_name":null}'])
async def test_unload_of_all(start: Starter, body: bytes) -> None:
    world = await start(answer, models={"n": MODEL})
    for model in ("m", "n"):
        await world.post(CHAT, {"model": model})

    reply = await world.post("/v1/unload", body)

    assert reply.json == {"status": "success", "message": "All models unloaded successfully"}
    assert all(engine.stopped for engine in world.driver.engines)


# --- logs, shutdown, stats --------------------------------------------------------------------------------


async def test_logs(start: Starter) -> None:
    world = await start(answer, output=["one", "two", "three é"])
    not_yet = await world.get("/internal/logs?model=m")
    assert (not_yet.status, not_yet.error.startswith("Model 'user.m' is not loaded")) == (404, True)
    unknown = await world.get("/internal/logs?model=nope")
    assert (unknown.status, "'nope' was not found" in str(unknown.json)) == (404, True)
    await world.post(CHAT, {"model": "m"})

    everything = (await world.get("/internal/logs?model=m")).body.splitlines()
    tail = (await world.get("/internal/logs?model=m&tail=1")).body.splitlines()

    assert [json.loads(line)["line"] for line in everything] == ["one", "two", "three é"]
    assert [json.loads(line) for line in tail] == [{"seq": 2, "timestamp": 1.5, "line": "three é"}]


async def test_following_logs_ends_with_the_engine_or_the_reader(start: Starter) -> None:
    world = await start(answer, output=["one"])
    await world.post(CHAT, {"model": "m"})
    reader, leaver = await world.client(), await world.client()
    for client in (reader, leaver):
        await client.send(message("GET", "/internal/logs?model=m&follow=1"))
        assert (await client.head()).value("X-Accel-Buffering") == "no"  # H31
        assert b"one" in await client.chunk()

    leaver.abort()
    await world.post("/v1/unload", b"")

    assert await reader.chunk() == b""


@pytest.mark.parametrize("query", ["", "?model=m&tail=x", "?model=m&tail=-1", "?model=m&tail=" + "9" * 5000])
async def test_a_bad_question_for_logs(start: Starter, query: str) -> None:
    assert (await (await start(answer)).get(f"/internal/logs{query}")).status == 400


async def test_shutdown(start: Starter) -> None:
    world = await start(answer)

    reply = await world.request("POST", "/internal/shutdown")

    assert reply.json == {"status": "shutting down"}
    assert world.shut_down.is_set()


async def test_stats_count_what_answers_tell(start: Starter) -> None:
    async def tells(connection: Connection) -> None:
        await connection.request()
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
        timings = {"prompt_ms": 250.0, "predicted_per_second": 40.5}
        await connection.send(ok(json.dumps({"usage": usage, "timings": timings}).encode()))

    world = await start(tells)
    for _ in range(2):
        await world.post(CHAT, {"model": "m"})

    assert (await world.get("/v1/stats")).json == {
        "input_tokens": 7,
        "output_tokens": 3,
        "time_to_first_token": 0.25,
        "tokens_per_second": 40.5,
        "prompt_tokens": 7,
        "cache_tokens": 2,
        "request_count_total": 2,
        "input_tokens_total": 14,
        "output_tokens_total": 6,
        "prompt_tokens_total": 14,
        "routing_decisions_total": 0,
        "routing_switches_total": 0,
    }


@pytest.mark.parametrize(
    "usage",
    [
        b"null",
        b"7",
        b'"x"',
        b'{"prompt_tokens":"7"}',
        b'{"prompt_tokens":1e999}',
        b'{"prompt_tokens":-3}',
        b'{"prompt_tokens":1' + b"0" * 400 + b"}",
        b"{}",
    ],
)
async def test_nonsense_in_usage_counts_nothing(start: Starter, usage: bytes) -> None:
    async def tells(connection: Connection) -> None:
        await connection.request()
        await connection.send(ok(b'{"usage":' + usage + b',"timings":[]}'))

    world = await start(tells)

    assert (await world.post(CHAT, {"model": "m"})).status == 200
    assert (await world.get("/v1/stats")).json["input_tokens_total"] == 0


# --- system-info ------------------------------------------------------------------------------------------


def test_a_hub_that_cannot_be_reached_has_the_disk_of_what_is_above_it() -> None:
    with open_folder() as folder:
        (folder / "closed").mkdir(mode=0)
        with bound_by_modes():
            storage = _storage(folder / "closed/hub")

    assert storage["total_bytes"] > 0


async def test_system_info_has_what_lemonades_clients_demand(start: Starter) -> None:
    option = {"name": "vk", "cli_flag": "--vk", "default_value": 0, "help": "which"}
    world = await start(answer, custom_options=[option])

    info = (await world.get("/api/v1/system-info")).json

    assert {"cpu", "amd_gpu", "amd_npu"} <= info["devices"].keys()
    assert info["OS Version"] == "Linux-6.1.0 (Debian GNU/Linux 12)"
    assert info["Physical Memory"] == "8.00 GB"
    assert info["model_storage"]["path"] == str(world.folder / "hub")
    assert info["model_storage"]["total_bytes"] > 0
    recipes = info["recipes"]
    for name in ("flm", "ryzenai-llm"):
        assert {backend["state"] for backend in recipes[name]["backends"].values()} == {"unsupported"}
    for recipe in recipes.values():
        assert recipe["default_backend"] in recipe["backends"]
    own = recipes[RECIPE]
    assert own["is_external"] is True
    assert own["modality"] == "Text generation"
    assert own["display_name"] == "Test <engine>"
    assert own["backends"] == {
        RECIPE: {
            "devices": ["cpu"],
            "state": "installed",
            "message": "",
            "action": "",
            "by_cli": None,
            "can_uninstall": True,
        }
    }
    assert own["options"] == [
        {"name": "vk", "cli_flag": "--vk", "default": 0, "type_name": None, "help": "which", "group": None}
    ]


async def test_built_in_backends_need_a_program(start: Starter, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "llama-server"
    program.parent.mkdir()
    program.touch(mode=0o755)
    world = await start(answer)

    recipes = (await world.get("/v1/system-info")).json["recipes"]

    assert recipes["llamacpp"]["default_backend"] == "cpu"
    assert recipes["llamacpp"]["backends"]["cpu"] == {
        "devices": [],
        "state": "installed",
        "message": str(program),
        "action": "",
        "can_uninstall": False,
    }
    assert recipes["llamacpp"]["backends"]["vulkan"]["state"] == "unsupported"
    assert recipes["llamacpp"]["options"][0]["cli_flag"] == "--llamacpp-device"
    lacking = recipes["sd-cpp"]["backends"]["cpu"]
    assert lacking["state"] == "action_required"
    assert "there is no sd-server" in lacking["message"]
    assert "install sd-server" in lacking["action"]


@pytest.mark.parametrize(
    ("document", "state", "action"),
    [
        ({}, "action_required", "put it into"),
        (
            {"source": "https://example.invalid/x", "sha256": f"sha256:{'0' * 64}"},
            "installable",
            f"lemonpod backends install-external {RECIPE}",
        ),
        ({"variant_of": "flm"}, "unsupported", ""),
        ({"platforms": {"darwin": {"cpu": {"binary": "llama-server"}}}}, "unsupported", ""),
    ],
)
async def test_a_variant_without_its_program(
    start: Starter, document: dict[str, Any], state: str, action: str
) -> None:
    blocks = {"linux": {"cpu": {"binary": "llama-server"}}}
    world = await start(answer, **{"variant_of": "llamacpp", "platforms": blocks, **document})

    recipe = (await world.get("/v1/system-info")).json["recipes"][RECIPE]

    assert recipe["variant_of"] == document.get("variant_of", "llamacpp")
    backend = recipe["backends"][RECIPE]
    assert (backend["state"], backend["action"].startswith(action)) == (state, True)
    assert backend["message"]


async def test_a_recipe_for_another_system_says_so(start: Starter) -> None:
    world = await start(answer, platforms={"windows": {"cpu": {"command": "x.exe", "args": []}}})

    backend = (await world.get("/v1/system-info")).json["recipes"][RECIPE]["backends"][RECIPE]

    assert backend["state"] == "unsupported"
    assert "no platform block for host OS 'linux'" in backend["message"]


async def test_rejected_manifests_are_shown(start: Starter) -> None:
    broken = '{"recipe":"broken","display_name":"b","api_contract_version":"1","nope":1}'
    world = await start(answer, files={"broken.json": broken, "half.json": "{"})

    rejected = {
        item["path"]: item for item in (await world.get("/v1/system-info")).json["rejected_manifests"]
    }

    item = rejected[str(world.folder / "backends/broken.json")]
    assert (item["recipe"], item["kept"]) == ("broken", False)
    assert any("unknown field 'nope'" in reason["reason"] for reason in item["reasons"])
    assert all(reason.keys() == {"field", "reason", "hint"} for reason in item["reasons"])
    assert str(world.folder / "backends/half.json") in rejected


# --- the page ---------------------------------------------------------------------------------------------


async def test_the_page_shows_what_runs_and_what_was_refused(start: Starter) -> None:
    world = await start(answer, files={"<b>.json": '{"recipe":"<script>"}'}, models={"<i>x": MODEL})
    await world.post(CHAT, {"model": "<i>x"})

    reply = await world.get("/")

    text = reply.body.decode()
    assert (reply.value("Content-Type") or "").startswith("text/html")
    assert "<html" in text
    for shown in ("user.&lt;i&gt;x", "Test &lt;engine&gt;", "&lt;b&gt;.json", "ready"):
        assert shown in text
    for hidden in ("<i>", "<b>.json", "<script", "http://", "https://", " src=", " href="):
        assert hidden not in text
    assert "default-src 'none'" in (reply.value("Content-Security-Policy") or "")


async def test_the_page_says_nothing_to_who_has_no_key(start: Starter) -> None:
    world = await start(answer, settings=GatewaySettings(api_key="k"))

    assert b"test-engine" not in (await world.get("/")).body
    assert b"test-engine" in (await world.get("/", Authorization="Bearer k")).body
