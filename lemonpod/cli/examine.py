"""What `lemonpod doctor` looks at: each check says what it found and, where that is bad, what to do."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lemonpod import bootstrap
from lemonpod.cli.check import Check
from lemonpod.cli.client import Client
from lemonpod.cli.examine_engines import Machine
from lemonpod.cli.examine_uses import use_checks, use_of_manifest, use_of_plan
from lemonpod.config import Folders, home_folder, load_settings
from lemonpod.contract.manifest import Manifest
from lemonpod.discovery.paths import Scope
from lemonpod.drivers.spawn import locate
from lemonpod.errors import ArgvError, ConfigError, LaunchError, LemonpodError, SpawnError
from lemonpod.host.user import this_user
from lemonpod.inventory.inventory import Inventory
from lemonpod.launch.bases.table import BUILTIN_MANIFESTS
from lemonpod.launch.environment import engine_environment
from lemonpod.launch.plan import ContainerLaunch, LaunchPlan
from lemonpod.models.hub import hub_dir

_CONNECT_TIMEOUT: Final = 1.0
_ANSWER_TIMEOUT: Final = 5.0
"""A server whose first look at the disk is not over yet answers `/live` all the same."""


def examine(folders: Folders, host: str, port: int, environ: Mapping[str, str]) -> Iterator[Check]:
    """Every check of this machine, in an order in which the first failure is the first to mend."""
    try:
        settings = load_settings(environ, folders)
    except ConfigError as error:
        yield Check(name="settings", ok=False, found=error.message, fix=error.hint or "correct the file")
        return
    path = folders.config / "config.json"
    yield Check(name="settings", ok=True, found=f"{path}{'' if path.exists() else ' (not there yet)'}")
    yield _folder("config folder", folders.config)
    yield _folder("cache folder", folders.cache)
    hub = hub_dir(environ, settings.models_dir)
    yield _hub(hub)
    inventory = bootstrap.local_inventory(folders, environ)
    yield from _manifests(inventory)
    plans = _plans(inventory, settings.engine.first_port)
    yield from _models(inventory, plans, environ)
    yield from _containers(inventory, plans, environ)
    yield _server(host, port)


def _folder(name: str, path: Path) -> Check:
    # Where something is in the way, what is above it counts as the last that exists.
    existing = next(folder for folder in (path, *path.parents) if os.path.exists(folder))
    if not existing.is_dir():
        return Check(name=name, ok=False, found=f"{existing} is a file", fix=f"move {existing} away")
    if not os.access(existing, os.W_OK | os.X_OK, effective_ids=True):
        if existing == path:
            return Check(name=name, ok=False, found=f"{path} cannot be written", fix=f"chown or chmod {path}")
        return Check(
            name=name,
            ok=False,
            found=f"{path} cannot be made or reached: {existing} is not open to UID {os.geteuid()}",
            fix=f"make {path} and give it to this user, or name another folder",
        )
    return Check(name=name, ok=True, found=f"{path}{'' if path == existing else ' (not there yet)'}")


def _hub(hub: Path) -> Check:
    try:
        os.scandir(hub).close()
    except FileNotFoundError:
        return Check(name="model cache", ok=True, found=f"{hub} (not there yet)")
    except OSError as error:
        found = f"{hub} cannot be read: {error.strerror}"
        return Check(name="model cache", ok=False, found=found, fix="chown or chmod it, or set HF_HUB_CACHE")
    return Check(name="model cache", ok=True, found=str(hub))


def _manifests(inventory: Inventory) -> Iterator[Check]:
    catalog = inventory.catalog
    recipes = ", ".join(sorted(catalog.descriptors)) or "none"
    yield Check(name="recipes", ok=True, found=recipes)
    own = ", ".join(f"{name}: {_own(inventory, manifest)}" for name, manifest in BUILTIN_MANIFESTS.items())
    yield Check(name="built-in backends", ok=True, found=own)
    for rejected in catalog.rejected:
        for problem in rejected.problems:
            if rejected.replaced:
                yield Check(name=f"manifest {rejected.path}", ok=True, found=str(problem))
                continue
            where = f"{problem.location}: " if problem.location else ""
            yield Check(
                name=f"manifest {rejected.path}",
                ok=False,
                found=f"{where}{problem.message}",
                fix=problem.hint or f"lemonpod manifest validate {rejected.path}",
            )


def _own(inventory: Inventory, manifest: Manifest) -> str:
    """The program of a built-in backend, which may be missing: nobody must use it."""
    try:
        return str(inventory.program_of(manifest)[1].path)
    except LaunchError as error:
        return error.message


def _plans(inventory: Inventory, port: int) -> dict[str, LaunchPlan | LemonpodError]:
    """The launch plan of each model, or why there is none."""
    plans: dict[str, LaunchPlan | LemonpodError] = {}
    for servable in inventory.servables():
        try:
            plans[servable.entry.id] = inventory.plan_now(servable.entry.id, {}, port)
        except LemonpodError as error:
            plans[servable.entry.id] = error
    return plans


def _models(
    inventory: Inventory, plans: Mapping[str, LaunchPlan | LemonpodError], environ: Mapping[str, str]
) -> Iterator[Check]:
    """Whether each model's launch plan can be made, and its program is there."""
    for problem in inventory.models.problems:
        yield Check(
            name=f"model file {problem.location}",
            ok=False,
            found=problem.message,
            fix=problem.hint or "correct the entry",
        )
    for servable in inventory.servables():
        model, recipe = servable.entry.id, servable.entry.recipe
        name, plan = f"model {model}", plans[model]
        if isinstance(plan, LemonpodError):
            fix = plan.hint or f"lemonpod manifest plan {recipe} --model {model}"
            yield Check(name=name, ok=False, found=plan.message, fix=fix)
        elif isinstance(plan.spec, ContainerLaunch):
            runs = f"{plan.spec.container.image} by {plan.spec.container.runtime}"
            yield Check(name=name, ok=True, found=f"{recipe} would run {runs} ({plan.block_path})")
        else:
            yield _process(name, plan, environ)


def _process(name: str, plan: LaunchPlan, environ: Mapping[str, str]) -> Check:
    try:
        program = _program(plan, environ)
    except SpawnError as error:
        fix = error.hint or f"correct 'command' in the manifest of {plan.recipe}"
        return Check(name=name, ok=False, found=error.message, fix=fix)
    return Check(name=name, ok=True, found=f"{plan.recipe} would run {program} ({plan.block_path})")


def _containers(
    inventory: Inventory, plans: Mapping[str, LaunchPlan | LemonpodError], environ: Mapping[str, str]
) -> Iterator[Check]:
    """The containers of all plans, and of manifests without one that somebody put here or registered with."""
    planned = [plan for plan in plans.values() if isinstance(plan, LaunchPlan)]
    uses = [use for plan in planned if (use := use_of_plan(plan))]
    registered = {servable.entry.recipe for servable in inventory.servables()}
    for recipe, descriptor in inventory.catalog.descriptors.items():
        own = descriptor.source.scope is not Scope.SHIPPED or recipe in registered
        if not own or any(plan.recipe == recipe for plan in planned):
            continue
        try:
            use = use_of_manifest(descriptor.manifest, inventory.facts)
        except ArgvError as error:
            fix = error.hint or f"correct {descriptor.source.path}"
            yield Check(name=f"recipe {recipe}", ok=False, found=error.message, fix=fix)
            continue
        uses += [use] if use else []
    yield from use_checks(uses, _machine(environ))


def _machine(environ: Mapping[str, str]) -> Machine:
    return Machine(
        root=Path("/"),
        user=this_user(),
        environ=environ,
        home=Path(home_folder(environ) or "/"),
        path=engine_environment(environ, {}, marker="", programs=os.path.dirname(sys.executable))["PATH"],
    )


def _program(plan: LaunchPlan, environ: Mapping[str, str]) -> str:
    """What a start would run, found as a start finds it; raises SpawnError."""
    env = engine_environment(environ, plan.env, marker="", programs=os.path.dirname(sys.executable))
    folder = None if plan.spec.cwd is None else str(plan.spec.cwd)
    return locate(plan.spec.argv[0], path=env["PATH"], cwd=folder)


def _server(host: str, port: int) -> Check:
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT):
            pass
    except (OSError, UnicodeError):  # UnicodeError: no name of a host
        return Check(name="server", ok=True, found=f"none runs on {host}:{port}; `lemonpod serve` starts one")
    try:
        Client(host, port, None, answer_timeout=_ANSWER_TIMEOUT).get("/live", holding=["status"])
    except LemonpodError as error:
        return Check(
            name="server",
            ok=False,
            found=f"something else answers on {host}:{port}: {error}",
            fix="end it, or serve on another port with --port",
        )
    return Check(name="server", ok=True, found=f"answers on {host}:{port}")
