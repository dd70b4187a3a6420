"""The composition root: settings become wired objects, and the server's life from start to end."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lemonpod.config import Folders, Settings, home_folder, load_settings
from lemonpod.contract.vocabulary import BUILTIN_RECIPES, Accelerator
from lemonpod.discovery.paths import discovery_paths
from lemonpod.host.choice import lacks_an_architecture
from lemonpod.host.detect import detect
from lemonpod.host.facts import HostFacts
from lemonpod.inventory.inventory import Inventory
from lemonpod.launch.request import LaunchSettings
from lemonpod.log import set_level
from lemonpod.models.hub import hub_dir
from lemonpod.models.registry import ModelRegistry

if TYPE_CHECKING:
    from lemonpod.engine.api import Adopter
    from lemonpod.engine.pool import Pool
    from lemonpod.engine.pressure import Reading
    from lemonpod.pull.pulls import Pulls

_FIRST_LOOK: Final = 0.5
"""Seconds to the next look for what an earlier server left with a runtime that does not answer."""
_LAST_LOOK: Final = 5.0
"""As many at most; they double."""

log = logging.getLogger(__name__)


def run_server(settings: Settings, environ: Mapping[str, str]) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; returns when every engine has ended."""
    import uvloop

    from lemonpod.drivers.open_files import raise_limit

    raise_limit()
    gc.disable()  # until it serves: of what is imported nothing is garbage, and to look for it takes long
    uvloop.run(_serve(settings, environ))


def local_inventory(folders: Folders, environ: Mapping[str, str]) -> Inventory:
    """What a server with these folders would serve, read once: for commands that need no server."""
    inventory = make_inventory(load_settings(environ, folders), environ)
    inventory.refresh()
    return inventory


def make_inventory(settings: Settings, environ: Mapping[str, str]) -> Inventory:
    facts = _facts()
    hub = hub_dir(environ, settings.models_dir)
    # Manifests are looked for in the same home as the settings.
    home = home_folder(environ)
    places = {**environ, "HOME": home} if home else environ
    return Inventory(
        paths=discovery_paths(places, os=facts.os, shipped=shipped_manifests()),
        registry=ModelRegistry(
            settings.folders.config,
            cache_dir=settings.folders.cache,
            extra_dir=settings.extra_models_dir,
        ),
        hub=hub,
        facts=facts,
        settings=LaunchSettings(
            hf_cache=hub,
            cache_dir=settings.folders.cache,
            log_level=settings.log_level,
            options=settings.launch_options,
            recipe_options=settings.recipe_options,
            containers=settings.containers,
        ),
        env=environ,
        builtin=BUILTIN_RECIPES,
        euid=os.geteuid(),
    )


def _facts() -> HostFacts:
    """What the files say, and of NVIDIA's tool only what plans cannot do without: it takes its time."""
    facts = detect()
    if not lacks_an_architecture(facts):
        return facts
    from lemonpod.host.nvidia_smi import asked

    return asked(facts)


async def _read_memory(facts: HostFacts, accelerators: frozenset[Accelerator]) -> Reading:
    from lemonpod.host.memory import fullness

    return await asyncio.to_thread(fullness, facts, accelerators)


def shipped_manifests() -> Path:
    """The manifests that come with lemonpod: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent
    installed = package / "manifests"
    return installed if installed.is_dir() else package.parent / "manifests"


async def _serve(settings: Settings, environ: Mapping[str, str]) -> None:
    from lemonpod.broker.ports import PortBroker
    from lemonpod.drivers.container import ContainerDriver
    from lemonpod.drivers.process import ProcessDriver
    from lemonpod.engine.api import InstanceState
    from lemonpod.engine.journal import Journal
    from lemonpod.engine.memory import Memory
    from lemonpod.engine.pool import Pool
    from lemonpod.engine.tasks import cancel
    from lemonpod.gateway.app import make_app
    from lemonpod.gateway.runner import running
    from lemonpod.inventory.watch import Watcher
    from lemonpod.log import copied_to
    from lemonpod.pull.missing import MissingFiles
    from lemonpod.pull.pulls import Pulls
    from lemonpod.reconfigure import Configuration

    end = asyncio.Event()
    inventory = make_inventory(settings, environ)
    state = settings.folders.cache / "lemonpod"
    journal = Journal()
    processes = ProcessDriver(state, environ, settings.engine, journal=journal)
    containers = ContainerDriver(state, environ, settings.engine, journal=journal)
    ports = PortBroker(settings.engine.first_port, settings.engine.last_port)
    pulls = Pulls(inventory.hub, environ, offline=settings.offline)
    pool = Pool(
        inventory,
        [processes, containers],
        ports,
        settings.engine,
        fetch=MissingFiles(inventory, pulls).fetch,
        max_loaded=settings.max_loaded_models,
        memory=Memory(read=partial(_read_memory, inventory.facts), threshold=settings.memory_threshold),
    )

    def on_signal(number: int) -> None:
        # Whoever asks twice does not want to wait. A closing terminal asks twice by itself: shell and kernel.
        if end.is_set() and number != signal.SIGHUP:
            log.warning("asked again: engines are killed")
            pool.hurry()
        end.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Its terminal going away (HUP) ends the server too, unless it was started by nohup.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, on_signal, number)
    async with AsyncExitStack() as stack:
        stack.enter_context(copied_to(journal, loop))
        for driver in (processes, containers):
            stack.push_async_callback(driver.aclose)
            for line in await driver.reclaim(at_once=end):
                log.warning("%s", line)
        stack.push_async_callback(pool.aclose)
        await _adopt(containers, pool, inventory)
        late = asyncio.create_task(_adopt_late(containers, pool, inventory))
        stack.push_async_callback(cancel, late)
        stack.push_async_callback(pulls.aclose)
        app = make_app(
            inventory,
            pool,
            pulls,
            settings.gateway,
            shutdown=end.set,
            params=Configuration(
                settings, environ, partial(use_settings, inventory=inventory, pool=pool, pulls=pulls)
            ),
            journal=journal,
        )
        host, port = await stack.enter_async_context(running(app, settings.host, settings.port))
        stack.push_async_callback(pool.aclose)  # before the edge: engines that end answer what waits
        await inventory.ready()
        watcher = Watcher(inventory)
        await watcher.start()
        stack.push_async_callback(watcher.aclose)
        if settings.gateway.api_key is None and not ip_address(host).is_loopback:
            log.warning("everybody who reaches %s may use this server: set LEMONADE_API_KEY", host)
        log.info("serving on http://%s:%d", f"[{host}]" if ":" in host else host, port)
        gc.freeze()  # what was imported stays: looking through it would hold up the loop for 20 ms each time
        gc.enable()
        await end.wait()
        running_engines = [s for s in pool.statuses() if s.state is not InstanceState.FAILED]
        log.info("ending: %d engine(s) to stop", len(running_engines))


def use_settings(settings: Settings, inventory: Inventory, pool: Pool, pulls: Pulls) -> None:
    """Go on with other settings, as far as that works without a restart."""
    set_level(settings.log_level)
    inventory.use_options(settings.launch_options, settings.recipe_options)
    pool.limit_to(settings.max_loaded_models)
    pulls.go_offline(settings.offline)


async def _adopt(driver: Adopter, pool: Pool, inventory: Inventory) -> None:
    """Go on with the engines that outlived an earlier server, and end the rest of them."""
    if not (found := driver.adoptable()):
        return
    await inventory.ready()
    for one in found:
        await pool.adopt(one)
    for line in await driver.settle():
        log.warning("%s", line)


async def _adopt_late(driver: Adopter, pool: Pool, inventory: Inventory) -> None:
    """The same for engines of a runtime that did not answer at first, as soon as it does."""
    pause = _FIRST_LOOK
    while driver.unsettled:
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LAST_LOOK)
        for line in await driver.reclaim():
            log.warning("%s", line)
        await _adopt(driver, pool, inventory)
