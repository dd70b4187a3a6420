"""The models that are being fetched: one job a model, shared by all who wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeAlias

from lemonpod.engine.failure import again
from lemonpod.engine.tasks import cancel
from lemonpod.errors import HubOfflineError, LemonpodError, ModelPullError
from lemonpod.pull.child import told_by_worker
from lemonpod.pull.repo import Checked, Found, Listing, RemoteFile

_TRUE: Final = frozenset({"1", "on", "yes", "true"})
_KEPT: Final = 20
"""Of jobs that are over, for clients that ask later."""

Planned = Callable[[], Awaitable[None]]
"""Called once it is known that the hub has everything, before the first byte of it."""

Told: TypeAlias = Callable[["PullProgress"], None]
"""Learns how far a job is, each time that there is news."""


class JobState(StrEnum):
    DOWNLOADING = "downloading"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    COMPLETED = "completed"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """How far a job is; `file` is the one that comes now."""

    file: str = ""
    file_index: int = 0
    total_files: int = 0
    bytes_downloaded: int = 0
    bytes_total: int = 0
    had_bytes: int = 0
    """Of the file that comes now, what was there before."""
    done_bytes: int = 0
    total_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be fetched: `org/repo[:variant]` by checkpoint name.

    `exact` refuses a repository of several models without a variant.
    """

    checkpoints: Mapping[str, str]
    exact: bool = False


class Job:
    """One fetch, from its start until it is forgotten."""

    def __init__(self, model: str, order: Order) -> None:
        self.model = model
        self.order = order
        self.state = JobState.DOWNLOADING
        self.progress = PullProgress()
        self.error: LemonpodError | None = None
        self.task: asyncio.Task[None]
        self.planned = False
        """The hub has everything."""
        self.on_plan: list[Planned] = []
        self.on_progress: list[Told] = []
        self.waiting = 0
        self.own = False
        """It goes on without anybody who waits for it."""

    @property
    def running(self) -> bool:
        return not self.task.done()

    @property
    def goes_on(self) -> bool:
        """It runs, and is not being ended."""
        return self.running and self.state is JobState.DOWNLOADING


class Pulls:
    """All jobs. For one event loop."""

    def __init__(
        self,
        hub: Path,
        environ: Mapping[str, str],
        *,
        offline: bool = False,
        retry_after: float = 1.0,
    ) -> None:
        """`retry_after` are the seconds to the first new try where the hub does not answer."""
        self._hub = hub
        self._environ = environ
        self._retry_after = retry_after
        self.go_offline(offline)
        self._jobs: dict[str, Job] = {}
        self.outdated: set[str] = set()
        """Models that the hub had newer files for, when it was last asked."""

    def go_offline(self, offline: bool) -> None:
        """Fetch nothing from now on, or again, unless the environment says otherwise."""
        self.offline = offline or self._environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE

    async def pull(
        self, model: str, order: Order, planned: Planned | None = None, *, told: Told | None = None
    ) -> Job:
        """Return when everything is there. Raises ModelPullError, InvalidModelError.

        Callers at the same time share one job, which ends soon after the last of them has left. What has
        come until then is kept, and the next pull goes on from there.
        """
        job = self._begun(model, order)
        job.waiting += 1
        if told is not None:
            job.on_progress.append(told)
        try:
            await _at_plan(job, planned)
            await asyncio.wait({job.task})
        finally:
            job.waiting -= 1
            if told is not None:
                job.on_progress.remove(told)
            if not job.waiting and not job.own and job.goes_on:
                await self.stop(job, JobState.CANCELLED)
        if job.error is not None:
            raise again(job.error)
        if job.state is not JobState.COMPLETED:
            raise ModelPullError(f"the pull of {model} was ended", hint="pull it again to go on with it")
        return job

    async def start(self, model: str, order: Order, planned: Planned | None = None) -> Job:
        """Begin a job that needs nobody to wait for it."""
        job = self._begun(model, order)
        job.own = True
        await _at_plan(job, planned)
        return job

    def jobs(self) -> tuple[Job, ...]:
        """Those that run, and those that ended last."""
        return tuple(self._jobs.values())

    def find(self, model: str) -> Job | None:
        return self._jobs.get(model)

    async def stop(self, job: Job, state: JobState) -> None:
        """End a job, if it still runs; the state says how it is told of."""
        if job.running:
            job.state = state
            await cancel(job.task)
        elif job.state is JobState.PAUSED:
            job.state = state

    def forget(self, job: Job) -> None:
        """Tell of a job that is over no more."""
        if self._jobs.get(job.model) is job:
            del self._jobs[job.model]

    async def listing(self, repo: str) -> Listing:
        """What a repository holds now. Raises ModelPullError."""
        told = await self._answer({"list": repo})
        files = tuple(RemoteFile(**file) for file in told["files"])
        return Listing(repo=told["repo"], commit=told["commit"], files=files)

    async def search(self, query: str, *, limit: int, gguf: bool) -> list[Found]:
        """Repositories of the hub. Raises ModelPullError."""
        told = await self._answer({"search": query, "limit": limit, "gguf": gguf})
        return [Found(**{**one, "tags": tuple(one["tags"])}) for one in told["repos"]]

    async def check(self, models: Mapping[str, Mapping[str, str]]) -> Checked:
        """Ask the hub for newer files of these models, whose checkpoints it has; `outdated` says so later.

        Raises ModelPullError where the hub cannot be asked at all.
        """
        told = await self._answer({"check": models, "hub": str(self._hub)})
        checked = Checked(outdated=tuple(told["outdated"]), unknown=told["unknown"])
        self.outdated = (self.outdated - models.keys()) | set(checked.outdated)
        return checked

    def check_online(self) -> None:
        """Raise HubOfflineError where nothing may be fetched."""
        if self.offline:
            raise HubOfflineError(
                "the server is in offline mode", hint="unset HF_HUB_OFFLINE and 'offline' in config.json"
            )

    async def aclose(self) -> None:
        """End every job."""
        await cancel(*(job.task for job in self._jobs.values()))

    def _begun(self, model: str, order: Order) -> Job:
        """The job that runs already, or a new one."""
        old = self._jobs.pop(model, None)
        if old is not None and old.goes_on and old.order.checkpoints == order.checkpoints:
            self._jobs[model] = old
            return old
        self.check_online()
        if old is not None and old.goes_on:
            old.state = JobState.CANCELLED
            old.task.cancel()
        job = self._jobs[model] = Job(model, order)
        job.task = asyncio.create_task(self._run(job), name=f"pull {model}")
        for over in [other for other in self._jobs.values() if not other.running][:-_KEPT]:
            self.forget(over)
        return job

    async def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What the worker says to a question."""
        self.check_online()
        async with aclosing(self._told(request)) as events:
            async for event in events:
                return event
        raise AssertionError("an answer or an error is always told")

    def _told(self, request: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        return told_by_worker({**request, "retry_after": self._retry_after}, self._environ)

    async def _run(self, job: Job) -> None:
        request = {
            "hub": str(self._hub),
            "checkpoints": dict(job.order.checkpoints),
            "exact": job.order.exact,
        }
        try:
            async with aclosing(self._told(request)) as events:
                async for event in events:
                    job.progress = _after(job.progress, event)
                    for told in job.on_progress:
                        told(job.progress)
                    if event["event"] == "plan":
                        job.planned = True
                        for planned in job.on_plan:
                            await planned()
        except LemonpodError as error:
            job.state, job.error = JobState.ERROR, error
        else:
            job.state = JobState.COMPLETED
            self.outdated.discard(job.model)


async def _at_plan(job: Job, planned: Planned | None) -> None:
    """Have `planned` called when the plan is there, which may be now."""
    if planned is not None and job.planned:
        await planned()
    elif planned is not None:
        job.on_plan.append(planned)


def _after(progress: PullProgress, event: Mapping[str, Any]) -> PullProgress:
    return replace(progress, **{name: value for name, value in event.items() if name != "event"})
