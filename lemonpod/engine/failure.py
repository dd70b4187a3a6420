"""What is told of an engine that failed, and how the error is kept and handed on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from lemonpod.engine.api import ExitStatus
from lemonpod.errors import (
    EngineError,
    EngineExitedError,
    EngineStoppedError,
    LemonpodError,
    SpawnError,
    StartTimeoutError,
)
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.scrub import scrub

LOG_TAIL: Final = 20
"""The last lines of output that go with a failure."""

_NOT_FOR_WANT_OF_ROOM: Final = ("not found", "does not exist", "no such file")
"""What Lemonade's router takes for a sign that an engine would fail on an empty machine too."""

E = TypeVar("E", bound=LemonpodError)


def exited_error(
    plan: LaunchPlan, status: ExitStatus, log_tail: tuple[str, ...], when: str = ""
) -> EngineExitedError:
    """The error of an engine that ended by itself."""
    end = f"was {status}" if status.signal is not None else str(status)
    return EngineExitedError(
        f"the {plan.recipe} engine of {plan.model} {end}{when}",
        exit_code=status.code,
        signal=status.signal,
        log_tail=fit_to_tell(log_tail, plan),
        hint=f"`lemonpod logs {plan.model}` shows what it wrote",
    )


def may_fit_alone(error: LemonpodError) -> bool:
    """Whether a start that failed so might succeed with nothing else loaded."""
    if not isinstance(error, EngineExitedError | StartTimeoutError | SpawnError):
        return False
    text = str(error).lower()
    return not any(words in text for words in _NOT_FOR_WANT_OF_ROOM)


def fit_to_tell(log_tail: Iterable[str], plan: LaunchPlan) -> list[str]:
    """Lines of output as clients may see them; the log that the hint leads to has them whole."""
    return [scrub(line, plan) for line in log_tail]


def describe_failure(error: LemonpodError) -> str:
    """The cause, and the last lines of the engine's output below it."""
    if isinstance(error, EngineExitedError):
        return "\n".join([error.message, *error.log_tail])
    tail = error.log_tail if isinstance(error, StartTimeoutError) else ()
    return "\n".join([str(error), *tail])


def with_doubt(error: E, plan: LaunchPlan) -> E:
    """An engine's error, and what this host lacks for it, which most likely is the cause."""
    if plan.doubt is None or not isinstance(error, EngineError) or isinstance(error, EngineStoppedError):
        return error
    told = again(error)
    told.hint = "; ".join(filter(None, (plan.doubt, error.hint)))
    return told


def again(error: E) -> E:
    """An equal error: one that is raised for many would collect their tracebacks, and all these hold."""
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    return copy


def let_go(error: LemonpodError) -> None:
    """A failure is kept for long: not with all that the frames of its traceback hold."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
