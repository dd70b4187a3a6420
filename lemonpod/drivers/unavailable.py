"""Why a container engine did not answer a call, in words."""

from __future__ import annotations

from collections.abc import Iterator

from lemonpod.drivers.address import Address
from lemonpod.drivers.reach import reach
from lemonpod.errors import RuntimeUnavailableError


def unavailable(address: Address, error: BaseException) -> RuntimeUnavailableError:
    """What `error` of a call means to people: who does not answer, why, and what to do about it. Blocks."""
    obstacle = reach(address)
    if obstacle is not None:
        reason, hint = obstacle.reason, obstacle.cure
    else:
        reason, hint = _of_the_call(error), "it can be connected to now: its log may say what happened"
    return RuntimeUnavailableError(f"the container engine at {address} does not answer: {reason}", hint=hint)


def _of_the_call(error: BaseException) -> str:
    chain = list(_chain(error))
    if any(isinstance(one, TimeoutError) or "Timeout" in type(one).__name__ for one in chain):
        return "it is connected, and takes too long"
    if any(isinstance(one, ConnectionError | EOFError) or "closed" in str(one) for one in chain):
        return "it hung up"
    return f"the connection broke: {chain[-1]}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came of; the SDKs wrap three deep."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
