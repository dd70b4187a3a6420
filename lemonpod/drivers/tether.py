"""Runs a program that ends when the thread that started it does: `tether.py PARENT FOLDER PROGRAM ARG…`.

A file to be run, not imported. It stays, as the parent of the program: a rootless podman is two processes of
the same command line, the second one in a user namespace, and ending the first leaves the second. FOLDER goes
with a parent that is gone, and can tidy up nothing.
"""

import ctypes
import os
import shutil
import signal
import sys
from contextlib import suppress
from types import FrameType

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """The exit code of the program."""
    parent, folder, program = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until there is somebody to pass it on to
    pid = os.posix_spawnp(program[0], program, os.environ, setsigmask=())

    def end(*_: int | FrameType | None) -> None:
        for one in (*_heirs(pid), pid):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has ended before we asked to be told
        end()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if os.getppid() != parent:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def _heirs(pid: int) -> list[int]:
    """The children of a process that run its own command line."""
    line = _read(f"/proc/{pid}/cmdline")
    found = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [one for one in found if _parent(one) == pid and _read(f"/proc/{one}/cmdline") == line]


def _parent(pid: int) -> int | None:
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()  # a name may hold anything
    return int(fields[1]) if fields else None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(main())
