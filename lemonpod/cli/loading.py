"""A load or download that is watched: a bar on a terminal, elsewhere a line for each step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from lemonpod.cli.client import Client, ServerError
from lemonpod.cli.output import printable
from lemonpod.errors import ConfigError

Show = Callable[[Mapping[str, Any] | None], None]
"""Takes the server's `progress`; None is a load that only has to become ready."""


def load_and_watch(client: Client, body: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Load, and show the progress on stderr; returns the server's last word, raises its error."""
    return _watched(client, "/api/v1/load", body, f"Loading {model}", lambda data: data.get("progress"))


def pull_and_watch(client: Client, body: Mapping[str, Any], model: str) -> dict[str, Any]:
    """As `load_and_watch`, for a model that is fetched. Leaving ends the download; what has come is kept."""
    return _watched(client, "/api/v1/pull", body, f"Pulling {model}", _file_progress)


def _watched(
    client: Client,
    path: str,
    body: Mapping[str, Any],
    title: str,
    progress: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
) -> dict[str, Any]:
    with closing(_events(client, path, body)) as events, _shown(title) as show:
        for name, data in events:
            if name == "complete":
                return data
            if name == "error":
                raise ServerError(data.get("status_code", 500), _message(data))
            show(progress(data))
    raise ConfigError("the server broke off its answer", hint="`lemonpod status` says what runs")


def _file_progress(data: Mapping[str, Any]) -> dict[str, Any] | None:
    if not data.get("file"):
        return None
    place = f"{data['file_index']}/{data['total_files']} " if data.get("total_files", 1) > 1 else ""
    return {
        "text": f"{place}{data['file']}",
        "done_bytes": data.get("overall_bytes_downloaded"),
        "total_bytes": data.get("total_download_size"),
    }


def _events(
    client: Client, path: str, body: Mapping[str, Any]
) -> Generator[tuple[str, dict[str, Any]], None, None]:
    name = ""
    with closing(client.lines("POST", path, body={**body, "stream": True})) as lines:
        for line in lines:
            if line.startswith("event:"):
                name = line.removeprefix("event:").strip()
            elif line.startswith("data:"):
                yield name, client.parse(line.removeprefix("data:"))
            elif line:
                break
    if not name:
        client.parse("")  # raises: a server of ours would have sent events


def _message(data: Mapping[str, Any]) -> str:
    error = data.get("error")
    return str(error.get("message")) if isinstance(error, dict) else str(error)


@contextmanager
def _shown(text: str) -> Iterator[Show]:
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with _bar(console, text) as show:
            yield show
    else:
        yield _lines()


@contextmanager
def _bar(console: Any, text: str) -> Iterator[Show]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TransferSpeedColumn,
    )

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
    measures = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
    with Progress(*columns, *measures, console=console, transient=True) as bar:
        task = bar.add_task(text)

        def show(progress: Mapping[str, Any] | None) -> None:
            said: Mapping[str, Any] = {"text": text} if progress is None else progress
            (job,) = bar.tasks
            job.total = said.get("total_bytes")  # to `update` None means the total that there was
            description, done = printable(str(said.get("text"))), said.get("done_bytes") or 0
            bar.update(task, description=description, completed=done)

        show(None)

        yield show


def _lines() -> Show:
    told: set[str] = set()

    def show(progress: Mapping[str, Any] | None) -> None:
        text = printable(str(progress.get("text"))) if progress else ""
        if text and text not in told:
            told.add(text)
            sys.stderr.write(f"{text}\n")

    return show
