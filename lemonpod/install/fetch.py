"""Fetches one file over HTTPS into a `Partial`, going on where an earlier attempt broke off.

From a server that ignores ranges, or has another file by now, it is taken from the start again. Without a
name for its content (ETag, Last-Modified) only a file whose digest is known is gone on with: the digest then
tells whether the halves belong together.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from email.message import Message
from http.client import HTTPException, HTTPResponse
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request

from lemonpod import __version__
from lemonpod.errors import DownloadError, InstallError
from lemonpod.install.https import PATIENCE, host_of, opener, reason
from lemonpod.install.partial import Known, Partial

MAX_BYTES: Final = 64 << 30
"""No engine is that large; a stream without an end is."""

_BLOCK: Final = 1 << 18
_ATTEMPTS: Final = 5
"""In a row that bring less than a block: a server that gives a drop at a time would be asked for ever."""
_LATER: Final = frozenset({429, 500, 502, 503, 504})
"""Statuses of a server that may do better in a moment."""
_RANGE: Final = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18})", re.ASCII)

Report = Callable[[int, int | None], None]
"""Called with the bytes that are there, and how many there will be."""


class _BrokeOffError(Exception):
    """This attempt is over, the next one may go on."""


def fetch(
    source: str,
    partial: Partial,
    *,
    pinned: bool,
    report: Report,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Return when the whole file is in `partial`; raises DownloadError, or InstallError for want of room.

    Whatever came before an error stays in `partial`.
    """
    if urlsplit(source).scheme != "https":
        raise DownloadError(f"download failed: {source} is no https:// address")
    if partial.complete and not pinned:
        partial.discard()  # what it was complete with may have moved on
    failures = 0
    while not partial.complete:
        before = partial.size
        try:
            _attempt(source, partial, pinned=pinned, report=report)
            return
        except _BrokeOffError as error:
            failures = 1 if partial.size - before >= _BLOCK else failures + 1
            if failures >= _ATTEMPTS:
                raise DownloadError(
                    f"download failed: {error}", hint="run the command again to go on where it broke off"
                ) from error
            pause(2.0 ** (failures - 1) - 1)  # at once, then after 1, 3 and 7 seconds


def _attempt(source: str, partial: Partial, *, pinned: bool, report: Report) -> None:
    headers = {"User-Agent": f"lemonpod/{__version__}", "Accept-Encoding": "identity"}
    if partial.size and (partial.known.validator or pinned):
        headers["Range"] = f"bytes={partial.size}-"
        if partial.known.validator:
            headers["If-Range"] = partial.known.validator
    host = host_of(source)
    try:
        response = opener().open(Request(source, headers=headers), timeout=PATIENCE)  # noqa: S310 - https alone
    except HTTPError as error:
        error.close()
        if error.code == 416:
            partial.discard()
            raise _BrokeOffError(f"{host} has another file now") from error
        if error.code in _LATER:
            raise _BrokeOffError(f"{host} answers {error.code} {error.reason}") from error
        raise DownloadError(
            f"download failed: {host_of(error.url) or host} answers {error.code} {error.reason}"
        ) from error
    except (OSError, HTTPException, ValueError) as error:
        message = f"{host} cannot be reached: {reason(error)}"
        if partial.size and not isinstance(error, ValueError):
            raise _BrokeOffError(message) from error
        raise DownloadError(f"download failed: {message}") from error
    with response:
        _begin(response, partial)
        _receive(response, partial, report)


def _begin(response: HTTPResponse, partial: Partial) -> None:
    """Have `partial` end where the answer begins."""
    if response.status == 206:
        given = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
        if (
            given
            and int(given[1]) == partial.size
            and int(given[2]) == (partial.known.total or int(given[2]))
        ):
            partial.learn(replace(partial.known, total=int(given[2])))
            partial.joined = partial.size > 0
            return
        partial.discard()
        raise _BrokeOffError("the server gave another range than was asked for")
    if response.status != 200:
        raise DownloadError(f"download failed: {host_of(response.url)} answers {response.status}")
    partial.begin(Known(total=_length(response.headers), validator=_validator(response.headers)))


def _receive(response: HTTPResponse, partial: Partial, report: Report) -> None:
    total = partial.known.total
    if total is not None:
        _check_room(partial, total - partial.size)
    with partial.appending() as tail:
        report(partial.size, total)
        while True:
            try:
                block = response.read1(_BLOCK)
            except (OSError, HTTPException) as error:
                raise _BrokeOffError(f"it broke off after {partial.size} bytes: {reason(error)}") from error
            if not block:
                break
            tail.write(block)
            if partial.size > min(MAX_BYTES, total or MAX_BYTES):
                size = partial.size
                partial.discard()
                raise DownloadError(f"download failed: more than {size - len(block)} bytes came")
            report(partial.size, total)
    if total is not None and partial.size < total:
        raise _BrokeOffError(f"it broke off after {partial.size} of {total} bytes")


def _check_room(partial: Partial, needed: int) -> None:
    free = shutil.disk_usage(partial.path.parent).free
    if needed > free:
        raise InstallError(
            f"the download needs {needed >> 20} MiB, and {free >> 20} MiB are free in {partial.path.parent}",
            hint="make room, or name another folder with --cache-dir",
        )


def _length(headers: Message) -> int | None:
    text = headers.get("Content-Length", "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _validator(headers: Message) -> str | None:
    etag = headers.get("ETag", "").strip()
    return etag if etag.startswith('"') else headers.get("Last-Modified")
