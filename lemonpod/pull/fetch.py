"""One file into the cache: resumed where a former try ended, compared with its hash, and put in place.

The layout is huggingface_hub's, which reads what is written here: `blobs/<etag>`, locked by
`.locks/…/<etag>.lock`, and a link to it, or where links are not possible the file itself, in
`snapshots/<commit>/`. Unlike in its own downloads, `blobs/<etag>.incomplete` outlives the process.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final

import httpx2
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import WeakFileLock

from lemonpod.errors import ModelPullError
from lemonpod.models.repo_lock import fetching_into
from lemonpod.pull.hub import Patience, opened
from lemonpod.pull.plan import Wanted
from lemonpod.pull.repo import RemoteFile

_PARTIAL: Final = ".incomplete"
_CHUNK: Final = 256 << 10
_NO_SUCH_RANGE: Final = 416
_SHA256: Final = 64
"""Hex digits; git's own hash has fewer, and is one of a header and the content."""
_RANGE: Final = re.compile(r"bytes (\d{1,18})-")


class _Mismatch(Exception):
    """What came is not what was promised."""


class Cache:
    """The folder of one repository in a hub's cache, for one commit."""

    def __init__(self, hub: Path, folder: str, commit: str) -> None:
        self._folder = hub / folder
        self._locks = hub / ".locks" / folder
        self._snapshot = self._folder / "snapshots" / commit
        self._commit = commit

    def held(self) -> AbstractContextManager[None]:
        """Nobody removes the repository meanwhile."""
        return fetching_into(self._folder)

    def has(self, wanted: Wanted) -> bool:
        """Whether the file is in its place."""
        return _is_file(self._snapshot / wanted.file.path, wanted.file.size)

    def holds(self, wanted: Wanted) -> bool:
        """Whether nothing of the file would have to be fetched."""
        return self.has(wanted) or self.kept(wanted) == wanted.file.size

    def kept(self, wanted: Wanted) -> int:
        """How many of the file's bytes are there already."""
        if _is_file(self._blob(wanted), wanted.file.size):
            return wanted.file.size
        size = _size(self._partial(wanted))
        return size if size <= wanted.file.size else 0

    def fetch(self, wanted: Wanted, tell: Callable[[int], None]) -> None:
        """Bring the file's content into the cache; `tell` learns how much of it there is.

        Raises ModelPullError, what the hub's library raises, and OSError.
        """
        self._locks.mkdir(parents=True, exist_ok=True)
        blob, partial = self._blob(wanted), self._partial(wanted)
        blob.parent.mkdir(parents=True, exist_ok=True)
        # Whoever else fetches it holds the lock, so that it is fetched once.
        with WeakFileLock(self._locks / f"{wanted.file.etag}.lock"):
            if not self.has(wanted) and not _is_file(blob, wanted.file.size):
                try:
                    _receive(wanted, partial, tell)
                except _Mismatch:
                    # Begun with other content, or spoiled on its way: only a new beginning can help.
                    partial.unlink(missing_ok=True)
                    _once_more(wanted, partial, tell)
                os.replace(partial, blob)
        tell(wanted.file.size)

    def place(self, wanted: Wanted, *, links: bool, more: bool) -> None:
        """Make the content appear under the file's name; `more` files are to have it too."""
        if self.has(wanted):
            return
        path, blob = self._snapshot / wanted.file.path, self._blob(wanted)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if links:
            path.symlink_to(os.path.relpath(blob, path.parent))
        elif more:
            shutil.copyfile(blob, partial := path.with_name(f"{path.name}{_PARTIAL}"))
            os.replace(partial, path)
        else:
            os.replace(blob, path)

    def activate(self) -> None:
        """Make this commit the repository's current one."""
        ref = self._folder / "refs" / "main"
        if ref.is_file() and ref.read_text(encoding="utf-8", errors="replace").strip() == self._commit:
            return
        ref.parent.mkdir(parents=True, exist_ok=True)
        temporary = ref.with_name(f"main.{os.getpid()}.tmp")
        temporary.write_text(self._commit, encoding="utf-8")
        os.replace(temporary, ref)

    def _blob(self, wanted: Wanted) -> Path:
        return self._folder / "blobs" / wanted.file.etag

    def _partial(self, wanted: Wanted) -> Path:
        return self._folder / "blobs" / f"{wanted.file.etag}{_PARTIAL}"


def _once_more(wanted: Wanted, partial: Path, tell: Callable[[int], None]) -> None:
    try:
        _receive(wanted, partial, tell)
    except _Mismatch as error:
        partial.unlink(missing_ok=True)
        raise ModelPullError(
            f"what came for '{wanted.file.path}' of '{wanted.listing.repo}' is not what the hub has: {error}",
            hint="it may have changed meanwhile; pull again",
        ) from error


def _receive(wanted: Wanted, partial: Path, tell: Callable[[int], None]) -> None:
    """Go on with `partial` until it is whole, over as many connections as it takes."""
    patience = Patience()
    with partial.open("a+b", buffering=0) as target:
        content = _Content(target, wanted.file, tell)
        while content.size < wanted.file.size:
            before = content.size
            try:
                _read(wanted, content)
            except (HfHubHTTPError, httpx2.TransportError) as error:
                if isinstance(error, HfHubHTTPError) and error.response.status_code == _NO_SUCH_RANGE:
                    raise _Mismatch("it is shorter than it was") from error
                if content.size > before:
                    patience.progress()
                patience.wait(error)
        content.check()
        os.fsync(target.fileno())


def _read(wanted: Wanted, content: _Content) -> None:
    listing = wanted.listing
    with opened(listing.repo, listing.commit, wanted.file.path, content.size) as response:
        if response.status_code != httpx2.codes.PARTIAL_CONTENT:
            content.restart()
        elif not (match := _RANGE.match(response.headers.get("Content-Range", ""))) or (
            int(match[1]) != content.size
        ):
            raise _Mismatch("it came from another place than asked for")
        for chunk in response.iter_raw(_CHUNK):
            content.write(chunk)
    if content.size < wanted.file.size:
        raise httpx2.ReadError("the connection ended early")


class _Content:
    """What there is of a file, and the hash of it so far."""

    def __init__(self, file: BinaryIO, wanted: RemoteFile, tell: Callable[[int], None]) -> None:
        self._file = file
        self._wanted = wanted
        self._tell = tell
        self.size = 0
        self._hash = self._new_hash()
        if _size_of(file) > wanted.size:
            self.restart()
        file.seek(0)
        while chunk := file.read(_CHUNK):
            self._take(chunk)

    def restart(self) -> None:
        self._file.truncate(0)
        self.size, self._hash = 0, self._new_hash()

    def write(self, chunk: bytes) -> None:
        if self.size + len(chunk) > self._wanted.size:
            raise _Mismatch(f"it is longer than {self._wanted.size} bytes")
        view = memoryview(chunk)
        while view:
            view = view[self._file.write(view) :]
        self._take(chunk)

    def check(self) -> None:
        if self._hash.hexdigest() != self._wanted.etag:
            raise _Mismatch("it has another hash")

    def _take(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        self.size += len(chunk)
        self._tell(self.size)

    def _new_hash(self) -> hashlib._Hash:
        if len(self._wanted.etag) == _SHA256:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self._wanted.size, usedforsecurity=False)


def _is_file(path: Path, size: int) -> bool:
    return path.is_file() and _size(path) == size


def _size_of(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
