"""Why a container engine does not answer, in words."""

from __future__ import annotations

from collections.abc import Iterator

from lemonpod.drivers.address import Address
from lemonpod.drivers.reach import Obstacle, reach
from lemonpod.errors import RuntimeUnavailableError


def check_reachable(address: Address) -> None:
    """Raise RuntimeUnavailableError where nobody can be connected to. Blocks."""
    obstacle = reach(address)
    if obstacle is not None:
        raise _blocked(address, obstacle)


def unavailable(address: Address, error: BaseException) -> RuntimeUnavailableError:
    """What `error` of a call means: who does not answer, why, and what to do about it. Blocks."""
    obstacle = reach(address)
    if obstacle is not None:
        return _blocked(address, obstacle)
    text = f"the container engine at {address} did not answer: {_reason(error)}"
    return RuntimeUnavailableError(text, hint="it can be connected to now: its log may say what happened")


def _blocked(address: Address, obstacle: Obstacle) -> RuntimeUnavailableError:
    text = f"the container engine at {address} does not answer: {obstacle.reason}"
    return RuntimeUnavailableError(text, hint=obstacle.cure)


def _reason(error: BaseException) -> str:
    from urllib3.exceptions import ProtocolError

    chain = list(_chain(error))
    if any(isinstance(one, TimeoutError) for one in chain):
        return "it took too long"
    if any(isinstance(one, ConnectionError | EOFError | ProtocolError) for one in chain):
        return "it hung up"
    return f"the connection broke: {chain[-1]}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came of, which the SDKs wrap three deep."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
