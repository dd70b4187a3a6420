"""Whether anybody answers at an address, and what stands in the way. All of it blocks."""

from __future__ import annotations

import errno
import os
import shlex
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from lemonpod.drivers.address import USUAL_PLACE, Address
from lemonpod.errors import RuntimeUnavailableError
from lemonpod.host.user import group_name, user_name

_TIMEOUT: Final = 3.0
_PORTS: Final = {"http": 80, "https": 443}


class Way(StrEnum):
    """What stands in the way of a connection."""

    NOTHING_THERE = "nothing there"
    NO_SOCKET = "no socket"
    FORBIDDEN = "forbidden"
    NOBODY_LISTENS = "nobody listens"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why nobody can be spoken to at an address, and what to do about it."""

    kind: Way
    reason: str
    cure: str


def reach(address: Address) -> Obstacle | None:
    """What keeps this process from connecting to `address`, or None where it can."""
    path = address.socket
    try:
        if path is None:
            _dial(address.url)
            return None
        if not stat.S_ISSOCK(path.stat().st_mode):
            cure = f"remove {path}, then {_start(address)}" if _is_usual(address) else _correct(address)
            return Obstacle(Way.NO_SOCKET, "it is not a socket", cure)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_TIMEOUT)
            client.connect(str(path))
    except (FileNotFoundError, NotADirectoryError):
        return Obstacle(Way.NOTHING_THERE, "there is no such file", _start(address))
    except PermissionError:
        return _forbidden(address)
    except ConnectionRefusedError:
        reason = "nobody listens there: it stopped" if path is None else "nobody listens on it: it is stale"
        return Obstacle(Way.NOBODY_LISTENS, reason, _start(address))
    except (OSError, ValueError) as error:  # ValueError for a NUL, UnicodeError for a host's name
        return Obstacle(Way.UNREACHABLE, _reason(error), _correct(address))
    return None


def first_reachable(places: Sequence[Address]) -> Address:
    """The first of `places` that can be connected to; raises RuntimeUnavailableError saying why none can."""
    obstacles = []
    for address in places:
        obstacle = reach(address)
        if obstacle is None:
            return address
        obstacles.append(obstacle)
    tried = "; ".join(f"{place}: {why.reason}" for place, why in zip(places, obstacles, strict=True))
    raise RuntimeUnavailableError(f"no container engine answers: {tried}", hint=best_cure(obstacles))


def best_cure(obstacles: Sequence[Obstacle]) -> str:
    """What to do about an engine that is there; else all that could be: which one is meant is unknown."""
    there = [one.cure for one in obstacles if one.kind is not Way.NOTHING_THERE]
    return there[0] if there else ", or ".join(dict.fromkeys(one.cure for one in obstacles))


def _dial(url: str) -> None:
    parts = urlsplit(url)
    port = parts.port or _PORTS[parts.scheme]
    with socket.create_connection((parts.hostname or "", port), timeout=_TIMEOUT):
        pass


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, TimeoutError):
        return f"it does not answer within {_TIMEOUT:.0f} s"
    if isinstance(error, OSError) and error.errno == errno.EAGAIN:
        return "it takes no more connections"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _is_usual(address: Address) -> bool:
    return address.origin == USUAL_PLACE


def _start(address: Address) -> str:
    return address.start or f"start the engine that is to listen there, or correct {address.origin}"


def _correct(address: Address) -> str:
    return address.start or f"correct {address.origin}"


def _forbidden(address: Address) -> Obstacle:
    """Who may connect is who may write to the socket and enter the folders above it."""
    if address.socket is None:  # a firewall's answer
        return Obstacle(Way.FORBIDDEN, "this machine does not let us connect", _correct(address))
    try:
        found = address.socket.stat()
    except OSError:
        shut = _shut_folder(address.socket)
        return Obstacle(Way.FORBIDDEN, f"UID {os.geteuid()} may not enter {shut}", _run_as(shut))
    who = f"UID {os.geteuid()} may not connect, its mode is {stat.S_IMODE(found.st_mode):04o}"
    owners = f"{user_name(found.st_uid)}:{group_name(found.st_gid)}"
    reason = f"{who}, its owner {owners}"
    if found.st_mode & stat.S_IWGRP and found.st_gid != 0:
        cure = f"sudo usermod -aG {group_name(found.st_gid)} {user_name(os.geteuid())}, then log in again"
        return Obstacle(Way.FORBIDDEN, reason, cure)
    return Obstacle(Way.FORBIDDEN, reason, _run_as(address.socket))


def _shut_folder(path: Path) -> Path:
    """The outermost folder above `path` that this process may not enter."""
    shut = (folder for folder in reversed(path.parents) if not os.access(folder, os.X_OK, effective_ids=True))
    return next(shut, path.parent)


def _run_as(path: Path) -> str:
    """The cure where only the owner is let in."""
    try:
        owner = user_name(path.stat().st_uid)
    except OSError:
        owner = "root"
    return f"run lemonpod as {owner} (sudo -u {shlex.quote(owner)} lemonpod …), or use an engine of your own"
