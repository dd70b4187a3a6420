"""Who is let in, to which route, for which model (H37, H39)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from lemonpod.engine.api import ExitStatus
from lemonpod.gateway.settings import GatewaySettings
from tests.factories import make_document
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import message, ok
from tests.unit.gateway.world import RECIPE, Starter

CHAT = "/v1/chat/completions"
MODEL = {"checkpoint": "org/repo:x.gguf", "recipe": RECIPE}


async def answer(connection: Connection) -> None:
    await connection.request()
    await connection.send(ok(b"{}"))


# --- paths and methods ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/nope", "/v1", "/v1/nope", "/v2/models", "/api/models", "/models", "/health"]
)
async def test_an_unknown_path(start: Starter, path: str) -> None:
    world = await start(answer)

    reply = await world.get(path)

    assert reply.status == 404
    assert reply.json == {
        "error": {"message": "The requested endpoint does not exist", "type": "not_found", "path": path}
    }
    assert (await world.request("HEAD", path)).status == 404


@pytest.mark.parametrize("path", ["chat/completions", "load", "unload", "audio/transcriptions", "slots/1"])
async def test_get_on_a_post_route(start: Starter, path: str) -> None:
    world = await start(answer, capabilities=["chat_completion", "slots"])

    reply = await world.get(f"/api/v1/{path}")

    assert reply.status == 405
    assert reply.json == {"error": "Method Not Allowed. Use POST for this endpoint"}
    assert reply.value("Allow") == "POST"
    assert (await world.request("HEAD", f"/api/v1/{path}")).status != 404


@pytest.mark.parametrize(
    "path", ["/", "/live", "/v1/health", "/v1/models", "/v1/models/m", "/v1/stats", "/v1/system-info"]
)
async def test_head_is_get_without_its_body(start: Starter, path: str) -> None:  # H19
    world = await start(answer)
    client = await world.client()
    await client.send(message("HEAD", path) + message("GET", path))

    head = await client.reply(method="HEAD")
    get = await client.reply()

    assert head.status == get.status == 200
    assert head.value("Content-Length") == get.value("Content-Length")


async def test_head_before_anything_is_loaded_loads_nothing_by_chance(start: Starter) -> None:
    world = await start(answer, capabilities=["slots"])

    assert (await world.request("HEAD", "/v1/slots")).status == 400
    assert not world.driver.engines


# --- models -----------------------------------------------------------------------------------------------


async def test_an_unknown_model(start: Starter) -> None:  # H37
    world = await start(answer)

    reply = await world.post(CHAT, {"model": "nope"})

    assert reply.status == 404
    assert reply.value("x-should-retry") == "false"
    assert (reply.error["code"], reply.error["param"]) == ("model_not_found", "model")
    assert reply.error["requested_model"] == "nope"
    assert reply.error["message"].startswith("Model 'nope' was not found. Available models include: user.m.")


@pytest.mark.parametrize("name", ["m", "user.m", "m:latest", "user.m:latest", "USER.M"])
async def test_every_name_of_a_model_is_one_engine(start: Starter, name: str) -> None:  # M15
    world = await start(answer)
    await world.post(CHAT, {"model": "m"})

    assert (await world.post(CHAT, {"model": name})).status == 200
    assert len(world.driver.engines) == 1


async def test_the_first_request_loads_and_all_share_the_load(start: Starter) -> None:
    world = await start(answer)
    world.driver.ready.clear()
    waiting = [asyncio.create_task(world.post(CHAT, {"model": "m"})) for _ in range(5)]
    await world.until(lambda: bool(world.driver.engines))
    assert (await world.get("/v1/health")).json["all_models_loaded"][0]["status"] == "loading"

    world.driver.ready.set()

    assert {reply.status for reply in await asyncio.gather(*waiting)} == {200}
    assert len(world.driver.engines) == 1


@pytest.mark.parametrize("slash", ["/", "%2F", "%2f"])
async def test_a_slash_in_a_models_name(start: Starter, slash: str) -> None:  # H39
    name = "unsloth/gemma-3-270m-it-GGUF:Q4_K_M"
    world = await start(answer, models={name: MODEL})

    assert (await world.get(f"/v1/models/{name.replace('/', slash)}")).json["id"] == f"user.{name}"
    assert (await world.post(CHAT, {"model": name})).status == 200


async def test_an_undeclared_operation_loads_nothing(start: Starter) -> None:
    world = await start(answer)

    reply = await world.post("/v1/embeddings", {"model": "m", "input": "x"})

    assert reply.status == 400
    assert reply.json == {
        "error": {"message": "Embeddings not supported by cpu", "type": "unsupported_operation"}
    }
    assert not world.driver.engines


async def test_rerank_on_a_chat_engine_that_runs(start: Starter) -> None:  # H37
    world = await start(answer)
    await world.post(CHAT, {"model": "m"})

    for path in ("rerank", "reranking", "reranker"):
        reply = await world.post(f"/v1/{path}", {"model": "m"})
        assert (reply.status, reply.error["type"]) == (400, "unsupported_operation")
        assert reply.values("Content-Type") == ["application/json; charset=utf-8"]
    assert [received.target for received in world.driver.received] == [CHAT]


async def test_chat_with_an_embedding_model(start: Starter) -> None:
    world = await start(answer, capabilities=["chat_completion", "embeddings"], labels=["embeddings"])

    reply = await world.post(CHAT, {"model": "m"})

    assert reply.status == 400
    assert reply.error == {
        "message": "This model does not support chat completion. Only LLM models support this endpoint.",
        "type": "invalid_request_error",
    }
    assert (await world.post("/v1/embeddings", {"model": "m"})).status == 200


async def test_a_running_engine_keeps_what_it_was_started_with(start: Starter) -> None:
    world = await start(answer)
    await world.post(CHAT, {"model": "m"})
    manifest = world.folder / "backends" / f"{RECIPE}.json"
    manifest.write_text(manifest.read_text().replace("chat_completion", "embeddings"))
    await world.get("/v1/models/nope")  # a miss looks at the disk

    assert (await world.post("/v1/completions", {"model": "m"})).status == 200
    assert (await world.post("/v1/embeddings", {"model": "m"})).status == 400


async def test_a_model_of_a_recipe_that_is_not_there(start: Starter) -> None:
    world = await start(answer, models={"lost": MODEL | {"recipe": "gone"}})

    reply = await world.post(CHAT, {"model": "lost"})

    assert reply.status == 500
    assert reply.value("x-should-retry") == "false"
    assert reply.error["code"] == "model_load_error"
    assert reply.error["requested_model"] == "lost"
    assert "no external manifest registered for recipe 'gone'" in reply.error["message"]
    assert reply.error["details"]["cause"] == "recipe_not_found"


async def test_an_engine_that_dies_while_it_starts(start: Starter) -> None:
    world = await start(answer, output=["loading", "out of memory"])
    world.driver.ready.clear()
    asking = asyncio.create_task(world.post(CHAT, {"model": "m"}))
    await world.until(lambda: bool(world.driver.engines and world.driver.engines[0].started))
    world.driver.engines[0].die(ExitStatus(code=7))

    reply = await asking
    assert reply.status == 500
    assert reply.value("x-should-retry") == "false"
    assert "exited with code 7" in reply.error["message"]
    assert reply.error["details"]["exit_code"] == 7
    assert reply.error["details"]["log_tail"][-1] == "out of memory"

    again = await world.post(CHAT, {"model": "m"})
    assert (again.status, again.error["type"]) == (503, "engine_cooling_down")
    assert int(again.value("Retry-After") or 0) >= 1
    assert again.value("x-should-retry") is None
    failed = (await world.get("/v1/health")).json["failed_models"]
    assert "exited with code 7" in failed[0]["reason"]


# --- no model named ---------------------------------------------------------------------------------------


async def test_without_a_model_the_last_used_one_answers(start: Starter) -> None:
    world = await start(answer, capabilities=["chat_completion", "slots", "tokenize"], models={"n": MODEL})
    for path, body in ((CHAT, {}), ("/v1/tokenize", {"content": "x"}), ("/v1/slots/1?action=erase", b"")):
        reply = await world.post(path, body)
        assert (reply.status, reply.error) == (400, "No model loaded and no model specified in request")
    await world.post(CHAT, {"model": "n"})
    await world.post(CHAT, {"model": "m"})

    assert (await world.post("/v1/tokenize", {"content": "x"})).status == 200
    assert (await world.get("/v1/slots")).status == 200
    assert (await world.post(CHAT, {"model": None})).status == 200
    assert [len(engine.received) for engine in world.driver.engines] == [1, 4]


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_without_a_model_the_engines_name_of_it_is_not_told(start: Starter, kind: str) -> None:
    weights = b'{"model":"/home/me/weights.gguf"}'
    body = weights if kind == "application/json" else b"data: %b\n\n" % weights

    async def told(connection: Connection) -> None:
        await connection.request()
        await connection.send(ok(body, kind))

    world = await start(told)
    await world.post("/v1/load", {"model_name": "m"})

    reply = await world.post(CHAT, {})
    assert b'"model":"user.m"' in reply.body
    assert b"weights" not in reply.body
    assert world.activities.tail(1)[0]["model"] == "user.m"


async def test_the_last_used_one_that_can_answers(start: Starter) -> None:
    plain = make_document(recipe="plain", capabilities=["completion"])
    world = await start(
        answer,
        capabilities=["tokenize"],
        models={"p": MODEL | {"recipe": "plain"}},
        files={"plain.json": json.dumps(plain)},
    )
    await world.post("/v1/tokenize", {"model": "m", "content": "x"})
    await world.post("/v1/completions", {"model": "p"})

    assert (await world.post("/v1/tokenize", {"content": "x"})).status == 200
    assert (await world.post("/v1/embeddings", {})).error["message"] == "Embeddings not supported by cpu"


# --- slots and tokenize -----------------------------------------------------------------------------------


async def test_slots_keep_their_number_query_and_remap(start: Starter) -> None:
    world = await start(answer, capabilities=["slots"], endpoints={"slots": "/slots"})

    await world.get("/v1/slots?model=m&x=%20")
    await world.post("/v1/slots/12?action=save", {"model": "m", "filename": "f"})
    await world.post("/v1/slots/0?action=erase&model=m", b"")

    assert [(r.method, r.target) for r in world.driver.received] == [
        ("GET", "/slots?model=m&x=%20"),
        ("POST", "/slots/12?action=save"),
        ("POST", "/slots/0?action=erase&model=m"),
    ]
    assert world.driver.received[2].body == b""


@pytest.mark.parametrize("path", ["/v1/slots/x?action=erase", "/v1/slots/1", "/v1/slots/1?action=dump"])
async def test_a_bad_slot_request(start: Starter, path: str) -> None:
    world = await start(answer, capabilities=["slots"])

    assert (await world.post(path, {"model": "m"})).status == 400
    assert not world.driver.engines


@pytest.mark.parametrize("body", [{"model": "m"}, {"model": "m", "content": 7}])
async def test_tokenize_needs_its_content(start: Starter, body: dict[str, Any]) -> None:
    world = await start(answer, capabilities=["tokenize"])

    reply = await world.post("/v1/tokenize", body)

    assert (reply.status, reply.json) == (400, {"error": "'content' parameter is required"})


# --- keys -------------------------------------------------------------------------------------------------

KEYS = GatewaySettings(api_key="kéy", admin_api_key="admin")


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [
        ("/v1/models", None, 401),
        ("/api/v0/models", "Bearer wrong", 401),
        ("/v1/models", "Bearer k\xc3\xa9y", 200),
        ("/v1/models", "bearer admin", 200),
        ("/v1/models", "Basic k\xc3\xa9y", 401),
        ("/v1/models", "k\xc3\xa9y", 401),
        ("/v1/models", "Bearer k\xff", 401),
        ("/v1/nope", None, 401),
        ("/%761/models", None, 401),
        ("/internal/logs?model=m", "Bearer k\xc3\xa9y", 401),
        ("/internal/logs?model=m", None, 401),
        ("/live", None, 200),
        ("/", None, 200),
        ("/nope", None, 404),
    ],
)
async def test_keys(start: Starter, path: str, key: str | None, status: int) -> None:
    world = await start(answer, settings=KEYS)

    reply = await world.get(path, **({"Authorization": key} if key else {}))

    assert reply.status == status
    if status == 401:
        admin = "admin " if path.startswith("/internal") else ""
        assert reply.json == {"error": f"Invalid or missing {admin}API key"}


async def test_the_api_key_is_the_admins_where_there_is_no_other(start: Starter) -> None:
    world = await start(answer, settings=GatewaySettings(api_key="k"))

    assert (await world.request("POST", "/internal/shutdown")).status == 401
    assert (await world.request("POST", "/internal/shutdown", {"Authorization": "Bearer k"})).status == 200


async def test_an_admin_key_alone_leaves_the_api_open(start: Starter) -> None:
    world = await start(answer, settings=GatewaySettings(admin_api_key="a"))

    assert (await world.get("/v1/models")).status == 200
    assert (await world.request("POST", "/internal/shutdown")).status == 401
    assert not world.shut_down.is_set()


# --- origins ----------------------------------------------------------------------------------------------


async def test_every_answer_varies_by_origin(start: Starter) -> None:
    world = await start(answer)

    for path in ("/live", "/nope", "/v1/models"):
        assert "Origin" in (await world.get(path)).values("Vary")


async def test_a_page_of_this_machine_may_call(start: Starter) -> None:
    world = await start(answer)

    reply = await world.post(CHAT, {"model": "m"}, {"Origin": "http://localhost:3000"})

    assert reply.status == 200
    assert reply.values("Access-Control-Allow-Origin") == ["http://localhost:3000"]


async def test_another_page_may_not(start: Starter) -> None:
    world = await start(answer)

    reply = await world.post(CHAT, {"model": "m"}, {"Origin": "https://evil.example"})

    assert (reply.status, reply.json) == (403, {"error": "Origin not allowed"})
    assert reply.value("Access-Control-Allow-Origin") is None
    assert not world.driver.engines


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/live", "/nope"])
async def test_options_is_answered_without_a_key(start: Starter, path: str) -> None:
    world = await start(answer, settings=KEYS)
    headers = {
        "Origin": "http://127.0.0.1:8080",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, x-stainless-os",
    }

    reply = await world.request("OPTIONS", path, headers)

    assert reply.status == 204
    assert reply.value("Access-Control-Allow-Origin") == "http://127.0.0.1:8080"
    assert reply.value("Access-Control-Allow-Headers") == "authorization, x-stainless-os"
    assert "POST" in (reply.value("Access-Control-Allow-Methods") or "")
