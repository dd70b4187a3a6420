"""A whole gateway, with its real inventory and pool; only the engines are scripts."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from lemonpod.broker.ports import PortBroker
from lemonpod.config import Folders, Settings, settle
from lemonpod.contract.vocabulary import BUILTIN_RECIPES
from lemonpod.discovery.paths import DiscoveryPaths
from lemonpod.engine.api import Driver
from lemonpod.engine.journal import Journal
from lemonpod.engine.pool import Pool
from lemonpod.engine.settings import EngineSettings
from lemonpod.engine.slots import UNLIMITED
from lemonpod.gateway import keys
from lemonpod.gateway.app import make_app
from lemonpod.gateway.data.activity import ActivityLog
from lemonpod.gateway.runner import running
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.host.facts import HostFacts
from lemonpod.inventory.inventory import Inventory
from lemonpod.launch.request import LaunchSettings
from lemonpod.models.registry import ModelRegistry
from lemonpod.pull.missing import MissingFiles
from lemonpod.pull.pulls import Pulls
from lemonpod.reconfigure import Configuration
from tests.factories import make_document, make_facts
from tests.fakes.driver import Script, ScriptedDriver
from tests.unit.gateway.wire import Client, Reply, message
from tests.waiting import until

RECIPE = "test-engine"
ENGINE_SETTINGS = EngineSettings(
    stop_grace=0.5, drain_timeout=0.05, abandon_grace=0.01, shutdown_timeout=1.0, watchdog=False
)


class World:
    """One running gateway, as a client sees it."""

    def __init__(self, port: int, driver: ScriptedDriver, pool: Pool, folder: Path) -> None:
        self.port = port
        self.driver = driver
        self.pool = pool
        self.folder = folder
        self.shut_down = asyncio.Event()
        self.journal = Journal()
        self.end: Callable[[], Awaitable[None]]
        """Ends the server, not the engines."""
        self.activities: ActivityLog
        self._clients: list[Client] = []

    async def client(self) -> Client:
        """A connection of the test's own."""
        client = await Client.connect(self.port)
        self._clients.append(client)
        return client

    async def raw(self, data: bytes, *, method: str = "POST") -> Reply:
        client = await self.client()
        await client.send(data)
        return await client.reply(method=method)

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        return await self.raw(message(method, target, headers, body), method=method)

    async def get(self, target: str, **headers: str) -> Reply:
        return await self.request("GET", target, headers)

    async def post(self, target: str, body: Any = b"", headers: Mapping[str, str] | None = None) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.request(
            "POST", target, {"Content-Type": "application/json"} | dict(headers or {}), data
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what is about to happen."""
        await until(condition, timeout=5)

    def hang_up(self) -> None:
        for client in self._clients:
            client.abort()


class Starter:
    """Writes what a gateway is to find, and starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def __call__(
        self,
        script: Script,
        *,
        capabilities: Sequence[str] = ("chat_completion", "completion"),
        labels: Sequence[str] = (),
        settings: GatewaySettings | None = None,
        output: Sequence[str] = (),
        models: Mapping[str, Mapping[str, Any]] | None = None,
        files: Mapping[str, str] | None = None,
        drivers: Sequence[Driver] | None = None,
        facts: HostFacts | None = None,
        environ: Mapping[str, str] | None = None,
        journal: Journal | None = None,
        max_loaded: int = UNLIMITED,
        **document: Any,
    ) -> World:
        """Start a gateway whose one recipe is RECIPE and whose one model is `user.m`.

        `models` are more entries of user_models.json, `files` more manifests as text, `environ` variables
        of what fetches models, and `document` more fields of the recipe's own.
        """
        backends = self.folder / "backends"
        backends.mkdir(mode=0o755)
        own = make_document(
            recipe=RECIPE, display_name="Test <engine>", capabilities=capabilities, **document
        )
        _write(backends / f"{RECIPE}.json", json.dumps(own))
        for name, text in (files or {}).items():
            _write(backends / name, text)
        entry = {"checkpoint": "org/repo:model.gguf", "recipe": RECIPE, "labels": list(labels)}
        _write(self.folder / "user_models.json", json.dumps({"m": entry} | dict(models or {})))

        driver = ScriptedDriver(script, output=output)
        hub = self.folder / "hub"
        inventory = Inventory(
            paths=DiscoveryPaths(user_config=(backends,), user_cache=(), system=(), shipped=()),
            registry=ModelRegistry(
                self.folder, cache_dir=self.folder / "cache", extra_dir=self.folder / "extra"
            ),
            hub=hub,
            facts=facts or make_facts(),
            settings=LaunchSettings(hf_cache=hub, cache_dir=self.folder / "cache"),
            env={"PATH": str(self.folder / "bin")},
            builtin=BUILTIN_RECIPES,
            euid=os.geteuid(),
        )
        await inventory.ready()
        first = random.randrange(10_000, 30_000)
        # No test may reach the real hub: one that has a stand-in of it says where.
        nowhere = {"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1"}
        pulls = Pulls(
            hub, nowhere if environ is None else {"PATH": os.environ["PATH"], **environ}, retry_after=0.01
        )
        pool = Pool(
            inventory,
            drivers or [driver],
            PortBroker(first, first + 200),
            ENGINE_SETTINGS,
            fetch=MissingFiles(inventory, pulls).fetch,
            max_loaded=max_loaded,
        )
        world = World(0, driver, pool, self.folder)
        self._stack.push_async_callback(pulls.aclose)
        world.journal = journal or world.journal
        app = make_app(
            inventory,
            pool,
            pulls,
            settings or GatewaySettings(),
            shutdown=world.shut_down.set,
            params=self._configuration(inventory),
            journal=world.journal,
        )
        server = await self._stack.enter_async_context(AsyncExitStack())
        _, world.port = await server.enter_async_context(running(app, "127.0.0.1", 0))
        world.end, world.activities = server.aclose, app[keys.RELAY].activities
        self._stack.push_async_callback(pool.aclose)
        self._stack.callback(world.hang_up)
        return world

    def _configuration(self, inventory: Inventory) -> Configuration:
        environ = {"HOME": str(self.folder)}
        folders = Folders(cache=self.folder / "cache", config=self.folder)

        def use(settings: Settings) -> None:
            inventory.use_options(settings.launch_options, settings.recipe_options)

        return Configuration(settle([], environ, folders), environ, use)


def install_variant(folder: Path, program: str) -> None:
    """Put there what RECIPE needs as a variant: its program, and the model's file."""
    path = folder / "cache" / "external" / RECIPE / program
    path.parent.mkdir(parents=True)
    path.write_text("")
    path.chmod(0o755)
    snapshot = folder / "hub" / "models--org--repo" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.gguf").write_bytes(b"GGUF")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
