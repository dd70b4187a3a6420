"""From an argv to a process, or to a message that says why not."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lemonpod.drivers.open_files import with_given_limit
from lemonpod.errors import SpawnError


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None,
    held: Path | None = None,
    stdout: int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start `argv` in a session of its own, with nothing inherited but `env`. Raises SpawnError.

    It also inherits a shared lock of the folder `held`, which so ends with the last process of its tree.
    """
    folder = os.fspath(cwd) if cwd is not None else None
    if folder is not None and not os.path.isdir(folder):
        raise SpawnError(
            f"cannot start {argv[0]}: its working_dir {folder} is not a folder",
            hint="create it, or correct working_dir in the manifest",
        )
    program = locate(argv[0], path=env.get("PATH", ""), cwd=folder)
    try:
        with _lock_of(held) as lock:
            return with_given_limit(
                lambda: subprocess.Popen(
                    argv,
                    executable=program,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=subprocess.STDOUT,
                    bufsize=0,
                    cwd=folder,
                    env=env,
                    close_fds=True,
                    pass_fds=lock,
                    start_new_session=True,
                )
            )
    except OSError as error:
        raise SpawnError(f"cannot start {program}: {_reason(error, program, folder)}") from error
    except ValueError as error:  # a NUL byte, or a name of a variable that holds "="
        raise SpawnError(f"cannot start {program}: {error} in its arguments or environment") from error


@contextmanager
def _lock_of(folder: Path | None) -> Iterator[Sequence[int]]:
    """The descriptor that a child takes over to hold the folder, if there is one to be held."""
    if folder is None:
        yield ()
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _not_held(folder, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:  # whoever removes it has it for itself
            raise _not_held(folder, error) from error
        except OSError:
            pass  # a file system without locks keeps no engine from its start
        yield (descriptor,)
    finally:
        os.close(descriptor)


def _not_held(folder: Path, error: OSError) -> SpawnError:
    return SpawnError(
        f"cannot start what is installed in {folder}: {error.strerror}",
        hint="it may have been replaced this moment: load the model again",
    )


def locate(command: str, *, path: str, cwd: str | None) -> str:
    """The program that `command` names, searched on `path` unless it holds a slash. Raises SpawnError."""
    if os.sep in command:
        where = os.path.join(cwd or "", command)
        if problem := _unusable(where):
            raise SpawnError(f"cannot start {command}: {where} {problem}", hint=_hint(problem, command))
        return command
    # An empty or relative entry would search the working folder: nobody means that for a server.
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    found: str | None = None
    for folder in folders:
        where = os.path.join(folder, command)
        problem = _unusable(where)
        if problem is None:
            return where
        if problem != _MISSING:
            found = found or f"{where} {problem}"
    if found:
        raise SpawnError(f"cannot start {command}: {found}", hint=_hint(found, command))
    raise SpawnError(
        f"cannot start {command}: not found in {os.pathsep.join(folders) or 'an empty PATH'}",
        hint="install it, or name it by its full path in the manifest",
    )


_MISSING = "does not exist"
_NOT_EXECUTABLE = "is not executable"


def _unusable(where: str) -> str | None:
    try:
        if os.path.isdir(where):
            return "is a folder"
        os.stat(where)
    except PermissionError:
        return "may not be looked at by this user"
    except (OSError, ValueError):
        return _MISSING
    return None if os.access(where, os.X_OK) else _NOT_EXECUTABLE


def _hint(problem: str, command: str) -> str | None:
    if problem.endswith(_NOT_EXECUTABLE):
        return "chmod +x it"
    if command.startswith("~"):
        return "'~' means nothing without a shell: write the path in full"
    return "correct 'command' in the manifest" if problem == _MISSING else None


def _reason(error: OSError, program: str, cwd: str | None) -> str:
    if error.errno == errno.ENOENT:
        # The file is there, so what is missing is the interpreter that its first line names,
        # or the dynamic loader of a program for another system.
        return f"its interpreter {_interpreter(os.path.join(cwd or '', program))} is missing"
    if error.errno == errno.ENOEXEC:
        return "it is no program for this machine, and no script with a #! line"
    return os.strerror(error.errno) if error.errno else str(error)


def _interpreter(program: str) -> str:
    try:
        with open(program, "rb") as file:
            line = file.readline(256)
    except OSError:
        line = b""
    if not line.startswith(b"#!"):
        return "or loader"
    return line[2:].decode("utf-8", "replace").strip()
