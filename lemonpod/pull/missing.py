"""What a load does first: fetch the files that are not there."""

from __future__ import annotations

from lemonpod.engine.api import Progress, Report
from lemonpod.errors import CheckpointNotFoundError, InvalidModelError, ModelPullError
from lemonpod.inventory.inventory import Inventory
from lemonpod.inventory.servable import fetched_checkpoints
from lemonpod.pull.pulls import Order, PullProgress, Pulls


class MissingFiles:
    """Fetches for loads. A pull of the same model at the same time is shared."""

    def __init__(self, inventory: Inventory, pulls: Pulls) -> None:
        self._inventory = inventory
        self._pulls = pulls

    async def fetch(self, model: str, report: Report) -> None:
        """Return when the model's files are there, or where they are nothing to fetch: offline, for an engine
        that has its own, and for paths of this machine. What is still missing then is up to the plan.

        Raises ModelNotFoundError, and CheckpointNotFoundError with the reason of a pull that failed.
        """
        servable = await self._inventory.current(model)
        availability = await self._inventory.availability(servable)
        if self._pulls.offline or not availability.missing:
            return
        try:
            checkpoints = fetched_checkpoints(servable)
            if any(availability.files[name].path is None for name in checkpoints):
                report(Progress(text=f"fetching {model}"))
                await self._pulls.pull(
                    model, Order(checkpoints=checkpoints), told=lambda progress: report(_as_told(progress))
                )
        except (ModelPullError, InvalidModelError) as error:
            missing = "; ".join(availability.missing)
            raise CheckpointNotFoundError(
                f"{missing}; and it cannot be fetched: {error.message}", hint=error.hint
            ) from error


def _as_told(progress: PullProgress) -> Progress:
    place = f"{progress.file_index}/{progress.total_files} " if progress.total_files > 1 else ""
    return Progress(
        text=f"fetching {place}{progress.file}" if progress.file else "fetching",
        done_bytes=progress.done_bytes,
        total_bytes=progress.total_bytes or None,
    )
