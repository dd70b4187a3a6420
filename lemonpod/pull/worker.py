"""The process that talks to the hub: `python -m lemonpod.pull.worker`.

One JSON line on its standard input says what to do; JSON lines on its standard output tell of it. The input
stays open for as long as somebody wants the result: its end is the end of this process, at whatever point.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

from lemonpod.errors import (
    HubAccessError,
    HubNotFoundError,
    InvalidModelError,
    LemonpodError,
    ModelPullError,
    NoSpaceError,
)
from lemonpod.models.checkpoint import repo_folder
from lemonpod.models.entry import CheckpointRef, Origin
from lemonpod.pull.fetch import Cache
from lemonpod.pull.hub import Patience, list_repo, search, told
from lemonpod.pull.plan import Wanted, wanted_files

_INTERVAL: Final = 0.1
"""Between two events of progress."""
_NOT_ALLOWED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_ANOTHER_CACHE: Final = (
    "let the server's user write there, or move the cache with HF_HUB_CACHE or models_dir; a model that is "
    "there completely can be loaded from a cache that cannot be written"
)


def main() -> None:
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    Patience.first_wait = request["retry_after"]
    try:
        if "list" in request:
            listing = list_repo(request["list"])
            files = [{"path": f.path, "size": f.size, "etag": f.etag} for f in listing.files]
            _say("listing", repo=listing.repo, commit=listing.commit, files=files)
        elif "search" in request:
            found = search(request["search"], limit=request["limit"], gguf=request["gguf"])
            _say("found", repos=[asdict(one) for one in found])
        elif "check" in request:
            _check(Path(request["hub"]), request["check"])
        else:
            _pull(Path(request["hub"]), request["checkpoints"], exact=request["exact"])
            _say("done")
    except LemonpodError as error:
        _say("error", code=error.code, message=error.message, hint=error.hint)
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        hint = _ANOTHER_CACHE if error.errno in _NOT_ALLOWED else None
        code = NoSpaceError.code if error.errno in _NO_SPACE else ModelPullError.code
        _say("error", code=code, message=f"cannot be read or written: {text}", hint=hint)


def _check(hub: Path, models: Mapping[str, Mapping[str, str]]) -> None:
    """Tell which of the models a pull would fetch something for."""
    look, outdated, unknown = cache(list_repo), [], {}
    for model, checkpoints in models.items():
        try:
            wanted = wanted_files(checkpoints, look)
        except (HubAccessError, HubNotFoundError, InvalidModelError) as error:
            unknown[model] = str(error)
            continue
        if not all(_cache(hub, one).holds(one) for one in wanted):
            outdated.append(model)
    _say("checked", outdated=outdated, unknown=unknown)


def _pull(hub: Path, checkpoints: Mapping[str, str], *, exact: bool) -> None:
    wanted = wanted_files(checkpoints, cache(list_repo), exact=exact)
    caches = {one.listing.repo: _cache(hub, one) for one in wanted}
    with ExitStack() as held:
        for repo in caches.values():
            held.enter_context(repo.held())
        _complete(hub, wanted, caches)


def _complete(hub: Path, wanted: tuple[Wanted, ...], caches: Mapping[str, Cache]) -> None:
    missing = [one for one in wanted if not caches[one.listing.repo].has(one)]
    kept = {one: caches[one.listing.repo].kept(one) for one in missing}
    total = sum(one.file.size for one in wanted)
    told_of = _Telling(wanted, total - sum(one.file.size - kept[one] for one in missing))
    told_of.plan(total)
    if missing:
        _check_space(hub, sum(one.file.size - kept[one] for one in missing))
    for one in missing:
        with told(one.listing.repo):
            told_of.begin(one, kept[one])
            caches[one.listing.repo].fetch(one, told_of.progress)
    if missing:
        # All at the end: a snapshot that lacks files would pass for a whole one.
        links = _links_work(hub)
        names = Counter(map(_content, missing))
        for one in missing:
            names[_content(one)] -= 1
            caches[one.listing.repo].place(one, links=links, more=names[_content(one)] > 0)
    for repo in caches.values():
        repo.activate()


class _Telling:
    """Tells of the progress, not more often than somebody could read."""

    def __init__(self, wanted: tuple[Wanted, ...], done: int) -> None:
        self._wanted = wanted
        self._total = sum(one.file.size for one in wanted)
        self._done = done
        self._current: Wanted = wanted[0]
        self._kept = 0
        self._had = 0
        self._told_at = 0.0

    def plan(self, total: int) -> None:
        _say("plan", total_files=len(self._wanted), total_bytes=total, done_bytes=self._done)

    def begin(self, one: Wanted, had: int) -> None:
        self._current, self._kept, self._had, self._told_at = one, had, had, 0.0
        self.progress(had)
        self._told_at = 0.0  # the first bytes of a file are news

    def progress(self, size: int) -> None:
        self._done += size - self._had
        self._had = size
        now = time.monotonic()
        if now - self._told_at < _INTERVAL and size < self._current.file.size:
            return
        self._told_at = now
        _say(
            "progress",
            file=self._current.file.path,
            file_index=self._wanted.index(self._current) + 1,
            total_files=len(self._wanted),
            bytes_downloaded=size,
            bytes_total=self._current.file.size,
            had_bytes=self._kept,
            done_bytes=self._done,
            total_bytes=self._total,
        )


def _content(wanted: Wanted) -> tuple[str, str]:
    """What several files may have in common."""
    return wanted.listing.repo, wanted.file.etag


def _cache(hub: Path, wanted: Wanted) -> Cache:
    return Cache(hub, _folder(wanted.listing.repo), wanted.listing.commit)


def _folder(repo: str) -> str:
    folder = repo_folder(CheckpointRef(text=repo, origin=Origin.HUB))
    assert folder is not None, repo  # noqa: S101 - it was asked of the hub under this name
    return folder


def _check_space(hub: Path, needed: int) -> None:
    hub.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(hub).free
    if needed > free:
        raise NoSpaceError(
            f"{_gb(needed)} are to be fetched, and {hub} has {_gb(free)} left",
            hint="delete a model, or move the cache with HF_HUB_CACHE or models_dir",
        )


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def _links_work(hub: Path) -> bool:
    from huggingface_hub.file_download import are_symlinks_supported

    return are_symlinks_supported(hub)


def _say(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def _end_with_the_input() -> None:
    while os.read(0, 1):  # without a lock of Python's, at which the exit would stumble
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
