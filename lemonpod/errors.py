"""Everything that can go wrong, in one tree.

LemonpodError
├─ ConfigError                  the server's own settings, folders or files
│   └─ InvalidModelError        a model that cannot be registered as it was given
├─ ManifestError                what a manifest says; holds every problem of the file
│   └─ UntrustedFileError       who may write the file that says it
├─ TokenError                   a template that does not parse, or a token without a usable value
├─ ImageError                   a text that is no reference to a container image
├─ LaunchError                  manifest, model and host do not add up to a launch plan
│   ├─ RecipeNotFoundError
│   ├─ PlatformNotSupportedError
│   ├─ ReservedArgError
│   ├─ CheckpointNotFoundError
│   ├─ NotInstalledError        the executable of a variant is not there, or is of another artifact
│   ├─ UnpinnedImageError       the operator wants digests, and an image is named without one
│   └─ ArgvError                a command line of podman or docker that they would refuse
│       └─ OnlyByCliError       one that they would run, and that cannot be said over their API
├─ InstallError                 an executable that is not installed or not removed
│   ├─ DownloadError            it could not be fetched, or is not what the manifest pins
│   └─ ArchiveError             what was fetched is not unpacked, and why
├─ ModelPullError               files of a model that could not be fetched, and why
│   ├─ HubOfflineError          nothing may be asked of the hub
│   ├─ HubNotFoundError         no such repository or file there, or none for this account
│   ├─ HubAccessError           gated or private, and not for this account
│   ├─ HubBusyError             the hub wants to be asked later
│   └─ NoSpaceError             more than the disk has left
├─ NoPortError                  every port of the range is taken
├─ EngineError                  a planned engine that does not run
│   ├─ SpawnError
│   ├─ StartTimeoutError
│   ├─ EngineExitedError        carries the exit and the last log lines
│   ├─ EngineUnhealthyError     the watchdog ended an engine that no longer answered
│   ├─ CoolingDownError         crashed a moment ago; says when to come back
│   ├─ SlotsPinnedError         every place that a model could take is kept for pinned ones
│   ├─ NoSlotError              other models were in use for as long as a request may wait
│   ├─ EngineStoppedError       unloaded, or the server is shutting down, while somebody waited
│   ├─ RuntimeUnavailableError  the container runtime does not answer: what it runs is unknown, not gone
│   ├─ ImageNotFoundError       neither here nor where it is pulled from, or not to be pulled
│   ├─ PullError                an image that could not be fetched, and why
│   └─ NameConflictError        a container's name is taken by one that is not ours
└─ RequestError                 what a client asked for
    ├─ ModelNotFoundError
    ├─ UnknownModelError        a model to fetch that is neither registered nor described
    ├─ NotDeletableError        a model to delete that is not there, not ours to remove, or being fetched
    ├─ ModelNotLoadedError
    ├─ UnsupportedOperationError
    ├─ WrongModelTypeError
    ├─ MalformedRequestError    a body that cannot be read, or lacks what the route needs
    ├─ RequestTooLargeError
    ├─ RequestTimeoutError
    ├─ QueueFullError           too many wait for this model already; says when to come back
    ├─ UnauthorizedError
    └─ UpstreamError            the engine broke off before its answer began

No HTTP status and no exit code lives here: those are tables of the gateway and the CLI.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


class LemonpodError(Exception):
    """Base of all errors that lemonpod raises on purpose; `hint` says what to do about it."""

    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a document: where, what, and what to do about it."""

    location: str
    """Path inside the document, as `platforms.linux.rocm.args[3]`; empty for the whole of it."""
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        text = self.message if self._names_its_place() else f"{self.location}: {self.message}"
        return f"{text} ({self.hint})" if self.hint else text

    def _names_its_place(self) -> bool:
        """Many messages do, and saying it twice helps nobody; a bare word may stand for something else."""
        quoted = self.location if "." in self.location else f"'{self.location}'"
        return not self.location or quoted in self.message


class ConfigError(LemonpodError):
    code = "config_invalid"


class InvalidModelError(ConfigError):
    code = "model_invalid"


class ManifestError(LemonpodError):
    """A manifest that is refused, with all its problems at once."""

    code = "manifest_invalid"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class UntrustedFileError(ManifestError):
    """A manifest file that somebody else could have written."""

    code = "manifest_untrusted"

    def __init__(self, path: Path, reason: str, *, hint: str | None = None) -> None:
        super().__init__([Problem(location="", message=reason, hint=hint)])
        self.path = path
        self.reason = reason


class TokenError(LemonpodError):
    code = "token_invalid"


class ImageError(LemonpodError):
    code = "image_invalid"


class LaunchError(LemonpodError):
    code = "launch_invalid"


class RecipeNotFoundError(LaunchError):
    code = "recipe_not_found"


class PlatformNotSupportedError(LaunchError):
    code = "platform_not_supported"


class ReservedArgError(LaunchError):
    code = "reserved_argument"


class CheckpointNotFoundError(LaunchError):
    code = "checkpoint_not_found"


class NotInstalledError(LaunchError):
    code = "binary_not_installed"


class UnpinnedImageError(LaunchError):
    code = "image_unpinned"


class ArgvError(LaunchError):
    """What is wrong with a command line, and with which of its words."""

    code = "argv_invalid"

    def __init__(self, reason: str, *, index: int, hint: str | None = None) -> None:
        super().__init__(f"{reason}, at argv[{index}]", hint=hint)
        self.reason = reason
        self.index = index


class OnlyByCliError(ArgvError):
    """A command line that is right, and that only the program itself can carry out."""

    code = "argv_only_by_cli"


class InstallError(LemonpodError):
    code = "install_failed"


class DownloadError(InstallError):
    code = "download_failed"


class ArchiveError(InstallError):
    code = "archive_refused"


class ModelPullError(LemonpodError):
    code = "download_error"


class HubOfflineError(ModelPullError):
    code = "lemond_offline"


class HubNotFoundError(ModelPullError):
    code = "hub_not_found"


class HubAccessError(ModelPullError):
    code = "hub_access_denied"


class HubBusyError(ModelPullError):
    code = "hub_busy"


class NoSpaceError(ModelPullError):
    code = "no_space"


class NoPortError(LemonpodError):
    code = "no_port"


class EngineError(LemonpodError):
    code = "engine_error"


class SpawnError(EngineError):
    code = "engine_spawn_failed"


class StartTimeoutError(EngineError):
    code = "engine_start_timeout"

    def __init__(self, message: str, *, log_tail: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.log_tail = tuple(log_tail)


class EngineExitedError(EngineError):
    """The engine's process ended by itself."""

    code = "engine_exited"

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        log_tail: Sequence[str] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code
        self.signal = signal
        self.log_tail = tuple(log_tail)

    def __str__(self) -> str:
        """With the engine's last line, which most often is the reason."""
        last = next((line.strip() for line in reversed(self.log_tail) if line.strip()), None)
        text = self.message if last is None else f"{self.message}; its last line: {last[:300]}"
        return f"{text} ({self.hint})" if self.hint else text


class EngineUnhealthyError(EngineError):
    code = "engine_unhealthy"


class CoolingDownError(EngineError):
    """The engine failed a moment ago; `retry_after` seconds are left before the next start."""

    code = "engine_cooling_down"

    def __init__(self, message: str, *, retry_after: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class SlotsPinnedError(EngineError):
    code = "slots_pinned_error"


class NoSlotError(EngineError):
    code = "no_slot"


class EngineStoppedError(EngineError):
    code = "engine_stopped"


class RuntimeUnavailableError(EngineError):
    code = "runtime_unavailable"


class ImageNotFoundError(EngineError):
    code = "image_not_found"


class PullError(EngineError):
    code = "image_pull_failed"


class NameConflictError(EngineError):
    code = "container_name_taken"


class RequestError(LemonpodError):
    code = "invalid_request"


class ModelNotFoundError(RequestError):
    code = "model_not_found"

    def __init__(self, message: str, *, model: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.model = model


class UnknownModelError(RequestError):
    code = "unknown_model"


class NotDeletableError(RequestError):
    code = "not_deletable"


class ModelNotLoadedError(RequestError):
    code = "model_not_loaded"


class UnsupportedOperationError(RequestError):
    code = "unsupported_operation"


class WrongModelTypeError(RequestError):
    """The model is deployed as something else than what the route is for."""

    code = "invalid_request_error"


class MalformedRequestError(RequestError):
    code = "malformed_request"


class RequestTooLargeError(RequestError):
    code = "request_too_large"


class RequestTimeoutError(RequestError):
    code = "request_timeout"


class QueueFullError(RequestError):
    """Come back in `retry_after` seconds."""

    code = "queue_full"

    def __init__(self, message: str, *, retry_after: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class UnauthorizedError(RequestError):
    code = "unauthorized"


class UpstreamError(RequestError):
    code = "network_error"
