"""Whether a container engine runs its containers on this machine, so that their pids are ours."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Final

from lemonpod.drivers.address import Address

_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid: struct ucred
_TIMEOUT: Final = 3.0


def is_local(address: Address, kernel: str | None) -> bool:
    """Whether it listens on a socket of ours, from our own pid namespace, and runs on our `kernel`.

    The last is for engines in a virtual machine, whose socket a local program passes on.
    """
    if address.socket is None or kernel != os.uname().release:
        return False
    pid = _listener(address.socket)
    return pid is not None and _is_of_our_namespace(pid)


def _listener(path: Path) -> int | None:
    """The pid of who listens; the kernel says 0 of one in a namespace that we do not see."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_TIMEOUT)
        try:
            client.connect(str(path))
            credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return None
    return _CREDENTIALS.unpack(credentials)[0] or None


def _is_of_our_namespace(pid: int) -> bool:
    """A process of a namespace below ours has a pid in each of them."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return any(line.startswith("NSpid:") and len(line.split()) == 2 for line in status.splitlines())
