"""Who writes into a repository of the cache, and who takes it away: never both at once.

The lock is on the repository's folder, so it leaves nothing behind and needs no right to write. What
huggingface_hub fetches by itself is known by the locks of its files.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lemonpod.errors import NotDeletableError


@contextmanager
def fetching_into(repo: Path) -> Iterator[None]:
    """Have the folder, made if need be, stay; many may. It goes again if nothing is in it at the end."""
    descriptor = _shared(repo)
    try:
        yield
    finally:
        with suppress(OSError):  # somebody else fetches, or there is something in it
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            repo.rmdir()
        os.close(descriptor)


@contextmanager
def removing_from(repo: Path) -> Iterator[None]:
    """Have the repository to oneself, if it is there. Raises NotDeletableError while somebody fetches."""
    with ExitStack() as held:
        for path in (repo, *sorted((repo.parent / ".locks" / repo.name).glob("*.lock"))):
            with suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                held.callback(os.close, descriptor)
                _have_alone(descriptor, repo)
        yield


def _shared(repo: Path) -> int:
    """A descriptor that holds the folder which is there now; it may be removed until the lock is had."""
    while True:
        repo.mkdir(parents=True, exist_ok=True)
        with ExitStack() as undo:
            try:
                descriptor = os.open(repo, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                undo.callback(os.close, descriptor)
                with suppress(OSError):  # a file system without locks keeps no model from being fetched
                    fcntl.flock(descriptor, fcntl.LOCK_SH)
                if os.path.samestat(os.fstat(descriptor), os.stat(repo)):
                    undo.pop_all()
                    return descriptor
            except FileNotFoundError:
                continue


def _have_alone(descriptor: int, repo: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise NotDeletableError(
            f"files of {repo} are being fetched at this moment",
            hint="wait for that, or end it, and delete the model again; it stays registered",
        ) from error
    except OSError:
        pass  # a file system without locks
