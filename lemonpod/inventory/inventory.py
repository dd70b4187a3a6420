"""What can be served now: the installed recipes and the registered models, as of the last look at the disk.

Requests read one frozen state from memory. A refresh makes the next state in a thread and puts it in place
in one step; a running engine keeps the plan that it was started from.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeVar

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.vocabulary import JsonValue, ModelManagement
from lemonpod.discovery.catalog import Catalog, scan
from lemonpod.discovery.paths import DiscoveryPaths
from lemonpod.discovery.validate import FileReport, validate_files
from lemonpod.errors import ConfigError, InvalidModelError, ModelNotFoundError, RecipeNotFoundError
from lemonpod.host.facts import HostFacts
from lemonpod.inventory.caller import this_caller
from lemonpod.inventory.installed import find_installs
from lemonpod.inventory.programs import InstalledPrograms
from lemonpod.inventory.refresh import Refresh, difference, report
from lemonpod.inventory.servable import Availability, Servable, find_files, in_use, make_servable
from lemonpod.launch.bases.executable import Found
from lemonpod.launch.installed import install_folder
from lemonpod.launch.options import Options, effective_options
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.request import LaunchRequest, LaunchSettings
from lemonpod.launch.resolve import resolve
from lemonpod.launch.select import Selection
from lemonpod.launch.started import ContainerDriving
from lemonpod.launch.variant import base_of, device_of, select_program
from lemonpod.models.aliases import add_alias, remove_alias
from lemonpod.models.entry import CheckpointFile, ModelEntry
from lemonpod.models.leftovers import Leftover, find_leftovers
from lemonpod.models.names import USER_PREFIX, bare_name
from lemonpod.models.registry import ModelRegistry, Models
from lemonpod.models.remove import remove_files
from lemonpod.models.write import Draft, new_entry, reset_options, save_options, unregister, write_entry

P = ParamSpec("P")
T = TypeVar("T")

_MAX_NAMED: Final = 10
"""How many models the message for an unknown one lists."""


@dataclass(frozen=True, slots=True)
class _State:
    catalog: Catalog
    models: Models
    servables: Mapping[str, Servable]


_NOTHING_YET: Final = _State(
    Catalog(descriptors=MappingProxyType({}), rejected=()),
    Models(entries=MappingProxyType({}), problems=(), refused=MappingProxyType({})),
    MappingProxyType({}),
)


class Inventory:
    """The recipes and models of this server. Reading is instant; `refresh` is what looks at the disk."""

    def __init__(
        self,
        *,
        paths: DiscoveryPaths,
        registry: ModelRegistry,
        hub: Path,
        facts: HostFacts,
        settings: LaunchSettings,
        env: Mapping[str, str],
        builtin: frozenset[str],
        euid: int,
    ) -> None:
        self.facts = facts
        self.hub = hub
        self._paths = paths
        self._registry = registry
        self._settings = settings
        self._env = env
        self._builtin = builtin
        self._euid = euid
        self._state = _NOTHING_YET
        self._one_refresh = threading.Lock()
        self._one_waiter = asyncio.Lock()
        self._seen = float("-inf")  # when the last look at the disk that is over began

    @property
    def catalog(self) -> Catalog:
        return self._state.catalog

    @property
    def models(self) -> Models:
        return self._state.models

    def refresh(self) -> Refresh:
        """Look at the disk and publish what is there; logs what is new since the last time.

        Blocks, so it belongs in a thread. Of several callers one works at a time.
        """
        with self._one_refresh:
            began = time.monotonic()
            result = self._look()
            self._seen = began
            return result

    async def ready(self) -> None:
        """Return once the first look at the disk is over."""
        if self._state is _NOTHING_YET:
            await self._refreshed()

    def find(self, name: str) -> Servable:
        """The model that a client calls `name`; raises ModelNotFoundError."""
        state = self._state
        entry = state.models.find(name)
        if entry is None:
            raise _unknown(name, state.models)
        return state.servables[entry.id]

    def servables(self) -> tuple[Servable, ...]:
        """Every registered model, in the order of the file."""
        return tuple(self._state.servables.values())

    async def lookup(self, name: str) -> Servable:
        """As `find`, but looks at the disk before it says no: a model may be a moment old."""
        try:
            return self.find(name)
        except ModelNotFoundError:
            await self._refreshed()
            return self.find(name)

    async def current(self, name: str) -> Servable:
        """As `find`, from what the files say now."""
        await self._refreshed()
        return self.find(name)

    def use_options(
        self, options: Mapping[str, JsonValue], recipe_options: Mapping[str, Mapping[str, JsonValue]]
    ) -> None:
        """Plan the starts that come with these options of config.json."""
        self._settings = replace(self._settings, options=options, recipe_options=recipe_options)

    def configured(self, option: str) -> JsonValue:
        """What config.json says of an option for every recipe; None where it says nothing."""
        return self._settings.options.get(option)

    def validate(self, files: Sequence[Path]) -> tuple[FileReport, ...]:
        """Everything wrong with manifest files, seen from this machine; reads them."""
        return validate_files(files, self.catalog, paths=self._paths, builtin=self._builtin, euid=self._euid)

    async def availability(self, servable: Servable) -> Availability:
        """Where the model's files are now."""
        return await asyncio.to_thread(self.look_for_files, servable)

    def look_for_files(self, servable: Servable) -> Availability:
        """As `availability`, for callers without an event loop. Blocks."""
        return find_files(servable, self.hub)

    async def save_options(self, model: str, options: Mapping[str, JsonValue]) -> None:
        """Keep options of a model, a canonical id, for its later loads; raises ConfigError."""
        await self._edit(save_options, self._registry.config_dir, model, options)

    async def reset_options(self, model: str) -> None:
        """Forget the saved options of a model, a canonical id; raises ConfigError."""
        await self._edit(reset_options, self._registry.config_dir, model)

    def draft(self, name: str, **definition: Any) -> tuple[Draft, Servable]:
        """A model as `new_entry` takes it, and what would serve it; raises InvalidModelError."""
        descriptor = self.catalog.descriptors.get(definition["recipe"])
        free = descriptor is not None and descriptor.manifest.model_management is ModelManagement.SELF_MANAGED
        draft = new_entry(name, **definition, free_checkpoints=free)
        return draft, make_servable(draft.entry, self.catalog, self._builtin)

    async def register(self, draft: Draft) -> None:
        """Write a draft into the file of models; raises ConfigError."""
        await self._edit(write_entry, self._registry.config_dir, draft)

    async def delete(self, model: str) -> None:
        """Take a model, a canonical id, and what on the disk is its alone.

        Raises ModelNotFoundError, NotDeletableError while somebody fetches files of its repositories, and
        ConfigError.
        """
        await self._edit(self._delete, model)

    async def leftovers(
        self, kept: Collection[str], running: Collection[str], *, remove: bool
    ) -> list[Leftover]:
        """What in the cache no model can use, as `find_leftovers` has it; `running` are ids of models."""
        await self._refreshed()
        servables = self.servables()

        def look() -> list[Leftover]:
            return find_leftovers(self.hub, in_use(servables, running, self.hub), kept, remove=remove)

        return await asyncio.to_thread(look)

    async def add_alias(self, alias: str, target: str) -> None:
        """Let `alias` stand for a model; raises ConfigError where it cannot, or names a model itself."""
        if self.models.named(alias) is not None:
            raise InvalidModelError(f"'{alias}' is the name of a model", hint="take another alias")
        await self._edit(add_alias, self._aliases_file(), alias, target)

    async def remove_alias(self, alias: str) -> bool:
        """Forget an alias; whether there was one. Raises ConfigError."""
        return await self._edit(remove_alias, self._aliases_file(), alias)

    def _aliases_file(self) -> Path:
        if self._registry.aliases_file is None:
            raise ConfigError("there is no cache folder, so there are no aliases")
        return self._registry.aliases_file

    def _delete(self, model: str) -> None:
        models = self.models
        entry = models.entries.get(model)
        if entry is None:  # somebody else was quicker
            raise _unknown(model, models)
        others = [other for id_, other in models.entries.items() if id_ != model]
        remove_files(entry, others, self.hub)
        unregister(self._registry.config_dir, model)

    async def _edit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do it off the loop, and know of it when this returns."""
        result = await asyncio.to_thread(work, *args, **kwargs)
        await self._refreshed()
        return result

    def options(self, servable: Servable, saved: Mapping[str, JsonValue]) -> Options:
        """What a load would use with these saved options. Raises LaunchError."""
        if servable.manifest is None:
            raise RecipeNotFoundError(servable.recipe_problem or "")
        entry = replace(servable.entry, saved_options=saved)
        request = self._request(servable.manifest, entry, {}, {}, 0)
        device_of(request)  # reads a backend's own names of options, which are wrong as easily
        return effective_options(request)

    @property
    def container_driver(self) -> ContainerDriving:
        """Who carries out the command lines of podman and docker."""
        return self._settings.containers.container_driver

    async def plan(self, model: str, overrides: Mapping[str, JsonValue], port: int) -> LaunchPlan:
        """The plan to start `model` by, from what the files say now."""
        await self._refreshed()
        return await asyncio.to_thread(self.plan_now, model, overrides, port)

    def plan_now(
        self, model: str, overrides: Mapping[str, JsonValue], port: int, *, recipe: str | None = None
    ) -> LaunchPlan:
        """The plan from what the last refresh found; `recipe` asks how another one would run the model.

        Looks for the model's files, so it belongs in a thread.
        """
        servable = self.find(model)
        if recipe is not None and recipe != servable.entry.recipe:
            entry = replace(servable.entry, recipe=recipe)
            servable = make_servable(entry, self.catalog, self._builtin)
        if servable.manifest is None:
            raise RecipeNotFoundError(
                servable.recipe_problem or "", hint="lemonpod backends --all lists recipes and refused files"
            )
        files = find_files(servable, self.hub).files
        return resolve(self._request(servable.manifest, servable.entry, files, overrides, port))

    def program_of(self, manifest: Manifest) -> tuple[Selection, Found]:
        """The block and the program of a variant or a built-in backend, for a model that asks for nothing.

        Blocks. Raises LaunchError where there is none.
        """
        base = base_of(manifest.variant_of or manifest.recipe)
        return select_program(self._request(manifest, _asking_nothing(manifest), {}, {}, 0), base)

    def device_of(self, manifest: Manifest) -> str | None:
        """The device that a model of the recipe is run on which asks for nothing, if the options name one."""
        return device_of(self._request(manifest, _asking_nothing(manifest), {}, {}, 0))

    def _request(
        self,
        manifest: Manifest,
        entry: ModelEntry,
        files: Mapping[str, CheckpointFile],
        overrides: Mapping[str, JsonValue],
        port: int,
    ) -> LaunchRequest:
        caller = this_caller()
        return LaunchRequest(
            manifest=manifest,
            entry=entry,
            files=files,
            overrides=overrides,
            facts=self.facts,
            port=port,
            settings=self._settings,
            env=self._env,
            installs=find_installs(install_folder(self._settings.cache_dir, manifest.recipe)),
            folder=caller.cwd,
            read=caller.read,
            programs=InstalledPrograms(self._env, os.path.dirname(sys.executable)),
        )

    def _look(self) -> Refresh:
        old = None if self._state is _NOTHING_YET else self._state
        before = old.catalog if old else None
        catalog = scan(self._paths, before, builtin=self._builtin, euid=self._euid)
        models = self._registry.load()
        if old and catalog == old.catalog and models is old.models:
            self._state = replace(old, catalog=catalog)  # equal, but it knows more of the files
            return Refresh()
        servables = {
            id_: make_servable(entry, catalog, self._builtin) for id_, entry in models.entries.items()
        }
        self._state = _State(catalog, models, MappingProxyType(servables))
        result = difference(before, catalog, old.models if old else None, models)
        report(result, catalog, first=old is None)
        return result

    async def _refreshed(self) -> None:
        """Wait for a refresh that began after this call; callers at the same time share one thread."""
        called = time.monotonic()
        async with self._one_waiter:
            if self._seen <= called:
                await asyncio.to_thread(self.refresh)


def _asking_nothing(manifest: Manifest) -> ModelEntry:
    return ModelEntry(
        id="", recipe=manifest.recipe, checkpoints={}, labels=(), recipe_options={}, saved_options={}
    )


def _unknown(name: str, models: Models) -> ModelNotFoundError:
    """In Lemonade's words; for a model whose entry is refused, with the reason."""
    ids = list(models.entries)
    more = f" and {len(ids) - _MAX_NAMED} more" if len(ids) > _MAX_NAMED else ""
    available = ", ".join(ids[:_MAX_NAMED]) + more if ids else "none"
    refused = models.refused.get(USER_PREFIX + bare_name(name))
    return ModelNotFoundError(
        f"Model '{name}' was not found. Available models include: {available}. Use 'lemonpod list' or "
        "GET /api/v1/models?show_all=true to see all available models.",
        model=name,
        hint=f"its entry is refused: {refused}" if refused else None,
    )
