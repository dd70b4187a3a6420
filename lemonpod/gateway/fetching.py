"""What a client wants fetched, to its last byte: one model, which is registered first if it is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lemonpod.contract.templates import asks_for_weights
from lemonpod.errors import InvalidModelError, ModelNotFoundError, UnknownModelError
from lemonpod.gateway.options_api import check_options
from lemonpod.gateway.pull_body import Definition
from lemonpod.inventory.inventory import Inventory
from lemonpod.inventory.servable import Servable, fetched_checkpoints
from lemonpod.models.entry import MAIN
from lemonpod.models.write import Draft
from lemonpod.pull.pulls import Job, Order, PullProgress, Pulls


@dataclass(frozen=True, slots=True)
class Wish:
    """A model to fetch; `draft` where it is to be registered first."""

    servable: Servable
    draft: Draft | None = None

    @property
    def model(self) -> str:
        return self.servable.entry.id


class Fetching:
    """One wish, and what of it is to be fetched."""

    def __init__(
        self, inventory: Inventory, pulls: Pulls, wish: Wish, checkpoints: Mapping[str, str]
    ) -> None:
        self.model = wish.model
        self._inventory = inventory
        self._pulls = pulls
        self._draft = wish.draft
        self._order = Order(checkpoints=checkpoints, exact=wish.draft is not None)

    @property
    def needs_the_hub(self) -> bool:
        """There is something to fetch, or to look for."""
        return bool(self._order.checkpoints)

    async def finish(self) -> None:
        """Return when all of it is there, and registered."""
        if self.needs_the_hub:
            await self._pulls.pull(self.model, self._order, self._register)
        else:
            await self._register()

    async def start(self) -> Job:
        """Let it go on without anybody who waits."""
        return await self._pulls.start(self.model, self._order, self._register)

    @property
    def progress(self) -> PullProgress:
        job = self._pulls.find(self.model)
        return PullProgress() if job is None else job.progress

    async def _register(self) -> None:
        if self._draft is not None:
            await self._inventory.register(self._draft)


async def fetching(
    inventory: Inventory, pulls: Pulls, wish: Wish, *, do_not_upgrade: bool = False
) -> Fetching:
    """What the wish comes to. A model that is complete is fetched anew only where the hub may be asked."""
    checkpoints = fetched_checkpoints(wish.servable)
    if (do_not_upgrade or pulls.offline) and not (await inventory.availability(wish.servable)).missing:
        checkpoints = {}
    return Fetching(inventory, pulls, wish, checkpoints)


async def wish_for(inventory: Inventory, name: str, definition: Definition | None) -> Wish:
    """The model that is registered under this name, or that the definition describes."""
    if definition is None:
        try:
            return Wish(await inventory.lookup(name))
        except ModelNotFoundError as error:
            raise UnknownModelError(
                str(error), hint="to register a new one, say its 'checkpoint' and 'recipe'"
            ) from error
    draft, servable = inventory.draft(name, **definition.as_arguments())
    if servable.recipe_problem is not None:
        raise InvalidModelError(f"Model '{name}': {servable.recipe_problem}")
    manifest = servable.manifest
    if manifest is not None and MAIN not in servable.entry.checkpoints and asks_for_weights(manifest):
        raise InvalidModelError(
            f"Model '{name}': recipe '{definition.recipe}' asks for the model's file",
            hint="say its checkpoint, as 'org/repo:file.gguf'",
        )
    check_options(servable, definition.recipe_options)
    return Wish(servable, draft)


def progress_members(progress: PullProgress) -> dict[str, Any]:
    """How far a fetch is, in Lemonade's words."""
    total = progress.bytes_total
    return {
        "file": progress.file,
        "file_index": progress.file_index,
        "total_files": progress.total_files,
        "bytes_downloaded": progress.bytes_downloaded,
        "bytes_total": total,
        "percent": 100 * progress.bytes_downloaded // total if total else 0,
        "total_download_size": progress.total_bytes,
        "overall_bytes_downloaded": progress.done_bytes,
    }
