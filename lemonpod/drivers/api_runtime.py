"""What podman and docker answer alike: the life of containers over HTTP. The rest is each one's own."""

from __future__ import annotations

import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final
from urllib.parse import quote

from lemonpod.contract.image import parse_image
from lemonpod.drivers import records
from lemonpod.drivers.address import Address
from lemonpod.drivers.calls import READ_TIMEOUT, Answer, Calls, Client
from lemonpod.drivers.container_errors import (
    being_removed,
    keeps_no_log,
    no_such_container,
    no_such_image,
    not_running,
    pull_error,
    refusal,
)
from lemonpod.drivers.runtime import ContainerInfo, Halt, ImageInfo, Listed
from lemonpod.drivers.streams import Demultiplexer, PullProgress, complaint, json_objects
from lemonpod.drivers.versions import Here, depends, here, unmet
from lemonpod.errors import EngineError, ImageError, PullError, SpawnError
from lemonpod.launch.argv.flags import StopVerb
from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.container import ContainerSpec, Platform, PullPolicy, Runtime

_SETUP_TIMEOUT: Final = 600.0
"""For create and start: with `:U` or `:Z` the engine goes over every file of a mount first."""
_REMOVAL_TIMEOUT: Final = 30.0
_POLL_INTERVAL: Final = 0.05
DOCKER_HUB: Final = "docker.io"
_NO_LOG: Final = b"(the log driver of this container keeps no log to read)\n"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """How an engine is asked to fetch an image."""

    calls: Calls
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] | None = None


class ApiRuntime(ABC):
    """A ContainerRuntime in what podman and docker have in common."""

    program: ClassVar[Runtime]
    stop_grace: ClassVar[str]
    """What the query of a stop calls its seconds."""
    forever: ClassVar[str]
    """How many are as good as no end."""
    volumes: ClassVar[str]
    """What the query of a removal calls the unnamed volumes."""
    at_once: ClassVar[Mapping[str, str]]
    """What it has to say for no stop signal, and no waiting."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._calls = Calls(address, self._connect)
        self._here: Here | None = None

    @abstractmethod
    def _connect(self) -> Client:
        """A client of the SDK; may ask the engine."""

    @abstractmethod
    def _create_request(self, spec: ContainerSpec) -> tuple[dict[str, str], dict[str, Any]]:
        """The query and the body."""

    @abstractmethod
    def _pull_request(self, reference: str, policy: PullPolicy, platform: Platform | None) -> PullRequest:
        """May ask the engine; raises PullError."""

    @abstractmethod
    def _log_is_framed(self, record: records.Json) -> bool:
        """Whether the log of the container comes in frames."""

    def image(self, reference: str, platform: Platform | None = None) -> ImageInfo | None:
        answer = self._calls.ask("GET", f"/images/{quote(reference, safe='/:@')}/json")
        if no_such_image(answer.status, answer.message):
            return None
        found = records.image_info(accepted(answer, f"cannot inspect the image {reference}").json())
        return found if platform is None or records.is_for(found.platform, platform) else None

    def pull(
        self,
        reference: str,
        *,
        policy: PullPolicy,
        platform: Platform | None,
        received: Callable[[int, int | None], None],
        halt: Halt,
    ) -> None:
        if policy is PullPolicy.MISSING and self.image(reference, platform) is not None:
            return  # without a word to the registry, which may have lost what a digest names
        asked = self._pull_request(reference, policy, platform)
        progress = PullProgress()
        with asked.calls.stream("POST", asked.path, halt, query=asked.query, headers=asked.headers) as stream:
            if stream.status >= 400:
                raise self._pull_error(reference, stream.whole().message)
            for event in json_objects(stream):
                if (reason := complaint(event)) is not None:
                    raise self._pull_error(reference, reason)
                if progress.hear(event):
                    received(progress.done, progress.total)
        self._check_pulled(reference, platform)

    def create(self, spec: ContainerSpec, labels: Mapping[str, str]) -> str:
        named = f"the container {spec.name or f'of {spec.image}'}"
        what = f"cannot create {named}"
        self._check_version(spec, what)
        query, body = self._create_request(replace(spec, labels={**spec.labels, **labels}))
        answer = self._calls.ask("POST", "/containers/create", query=query, body=body, timeout=_SETUP_TIMEOUT)
        made = accepted(answer, what, SpawnError).json()
        for warning in made.get("Warnings") or ():
            log.warning("%s of %s: %s", self.program, named, warning)
        return str(made["Id"])

    def start(self, container: str) -> None:
        answer = self._calls.ask("POST", f"{container_path(container)}/start", timeout=_SETUP_TIMEOUT)
        accepted(answer, f"cannot start the container {container}", SpawnError)

    def inspect(self, container: str) -> ContainerInfo | None:
        record = self._record(container)
        return None if record is None else records.container_info(record)

    def containers(self, labels: Mapping[str, str]) -> Sequence[Listed]:
        filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
        query = {"all": "true", "filters": json.dumps(filters)}
        answer = self._calls.ask("GET", "/containers/json", query=query)
        found = map(records.listed, accepted(answer, "cannot list the containers").json())
        return [one for one in found if labels.items() <= one.labels.items()]

    def logs(
        self, container: str, write: Callable[[bytes], None], halt: Halt, *, follow: bool = True
    ) -> None:
        record = self._record(container)
        if record is None:
            return
        query = {"follow": _word(follow), "stdout": "true", "stderr": "true"}
        with self._calls.stream("GET", f"{container_path(container)}/logs", halt, query=query) as stream:
            if stream.status >= 400:
                self._without_log(container, stream.whole(), write)
                return
            frames = Demultiplexer() if self._log_is_framed(record) else None
            for chunk in stream:
                if written := frames.feed(chunk) if frames else chunk:
                    write(written)
            if frames and (rest := frames.end()):
                write(rest)

    def wait(self, container: str, halt: Halt) -> None:
        with self._calls.stream("POST", f"{container_path(container)}/wait", halt) as stream:
            answer = stream.whole()
        if no_such_container(answer.status, answer.message):
            return
        try:
            accepted(answer, f"cannot wait for the container {container}").json()
        except ValueError:  # the head was sent at once, and the engine closed in good order before the end
            raise self._calls.hung_up() from None

    def stop(self, container: str, timeout: int) -> None:
        query = {self.stop_grace: str(timeout)}
        answer = self._calls.ask(
            "POST", f"{container_path(container)}/stop", query=query, timeout=READ_TIMEOUT + timeout
        )
        if not _has_ended(answer):
            accepted(answer, f"cannot stop the container {container}")

    def kill(self, container: str, signal: str) -> None:
        answer = self._calls.ask("POST", f"{container_path(container)}/kill", query={"signal": signal})
        if not _has_ended(answer):
            accepted(answer, f"cannot send {signal} to the container {container}")

    def remove(self, container: str) -> None:
        query = {"force": "true", self.volumes: "true", **self.at_once}
        give_up_at = time.monotonic() + _REMOVAL_TIMEOUT
        answer = self._calls.ask("DELETE", container_path(container), query=query)
        while being_removed(answer.message) and time.monotonic() < give_up_at:
            time.sleep(_POLL_INTERVAL)
            answer = self._calls.ask("DELETE", container_path(container), query=query)
        if not no_such_container(answer.status, answer.message):
            accepted(answer, f"cannot remove the container {container}")

    def carry_out(self, stop: ContainerStop) -> None:
        """All containers have their turn, also after one that failed."""
        errors = []
        for container in stop.containers:
            try:
                self._carry_out(stop, container)
            except EngineError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def close(self) -> None:
        self._calls.close()

    def _pull_error(self, reference: str, reason: str) -> EngineError:
        return pull_error(reference, reason, f"{self.program} login {_registry(reference)}")

    def _check_pulled(self, reference: str, platform: Platform | None) -> None:
        """A pull that ended well may have brought an image for another platform, or none."""
        if self.image(reference, platform) is not None:
            return
        other = self.image(reference)
        if other is None:
            reason = "the engine told of no error, and it is not there"
            raise PullError(f"cannot pull {reference}: {reason}", hint="the engine's log may say more")
        reason = f"the registry has it for {other.platform}, not for {platform}"
        raise PullError(
            f"cannot pull {reference}: {reason}", hint="leave --platform out, or name another image"
        )

    def _check_version(self, spec: ContainerSpec, what: str) -> None:
        """Refuse what would be passed over in silence.

        The version is asked for by the first spec that depends on it, and before a refusal again: an engine
        may have been upgraded under us.
        """
        if not depends(spec) or (self._here is not None and unmet(spec, self._here) is None):
            return
        answer = self._calls.ask("GET", "/version")
        self._here = here(self.program, accepted(answer, f"cannot ask {self.program} for its version").json())
        if need := unmet(spec, self._here):
            raise SpawnError(
                f"{what}: {self._here} would pass over '{need.flag}' in silence",
                hint=need.hint(self._here.engine),
            )

    def _carry_out(self, stop: ContainerStop, container: str) -> None:
        method, path = "POST", f"{container_path(container)}/{stop.verb.value}"
        query: dict[str, str] = {} if stop.signal is None else {"signal": stop.signal}
        timeout: float | None = READ_TIMEOUT
        if stop.verb is StopVerb.REMOVE:
            method, path = "DELETE", container_path(container)
            query |= {"force": _word(stop.force), self.volumes: _word(stop.volumes)}
        if stop.verb is not StopVerb.KILL:
            grace = stop.timeout
            if grace is None:
                grace = records.stop_timeout(self._record(container) or {})
            else:
                query[self.stop_grace] = str(grace) if grace >= 0 else self.forever
            timeout = READ_TIMEOUT + grace if grace >= 0 else None
        answer = self._calls.ask(method, path, query=query, timeout=timeout)
        may_be_gone = stop.ignore or (stop.verb is StopVerb.REMOVE and stop.force)
        if not (may_be_gone and no_such_container(answer.status, answer.message)):
            accepted(answer, f"cannot {stop.verb.value} the container {container}")

    def _record(self, container: str) -> records.Json | None:
        answer = self._calls.ask("GET", f"{container_path(container)}/json")
        if no_such_container(answer.status, answer.message):
            return None
        record: records.Json = accepted(answer, f"cannot inspect the container {container}").json()
        return record if records.is_named(record, container) else None

    def _without_log(self, container: str, answer: Answer, write: Callable[[bytes], None]) -> None:
        if keeps_no_log(answer.message):
            write(_NO_LOG)
        elif not no_such_container(answer.status, answer.message):
            accepted(answer, f"cannot read the log of the container {container}")


def accepted(answer: Answer, what: str, otherwise: type[EngineError] = EngineError) -> Answer:
    """The answer, unless it is a refusal of `what`, which it raises."""
    if answer.ok:
        return answer
    raise refusal(what, answer.message, otherwise)


def _has_ended(answer: Answer) -> bool:
    return no_such_container(answer.status, answer.message) or (not answer.ok and not_running(answer.message))


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _registry(reference: str) -> str:
    try:
        return parse_image(reference).registry or DOCKER_HUB
    except ImageError:
        return DOCKER_HUB


def container_path(container: str) -> str:
    """The path of one container in the API, by its name or id."""
    return f"/containers/{quote(container, safe='')}"
