"""What a fake engine does wrong, or slowly, when it answers."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """Each field is a flag of the program, and a key of a request's `fake` object."""

    ready_after: float = 0.0
    """Seconds until /health answers 200; before, `ready_status`."""
    ready_status: int = 503
    accept_but_silent: bool = False
    """Take every connection and never answer."""
    crash_on_request: bool = False
    """End with code 3 at the first inference request."""
    tokens: int = 5
    token_delay: float = 0.0
    first_delay: float = 0.0
    """Seconds before the status line of an inference answer."""
    drop_mid_stream: bool = False
    """Reset the connection after the second token."""
    short_body: bool = False
    """Announce 100 bytes, send 5, close."""
    silent_stream: bool = False
    """One token, then nothing until the client leaves."""
    stream_error: bool = False
    """Report a failure inside the stream as an `error:` field, as older llama-servers do."""
    gzip: bool = False
    redirect: str = ""
    """Answer inference requests with 302 to this place."""
    set_cookie: str = ""
    error_status: int = 0
    """Answer inference requests with this status and an OpenAI error object."""

    def changed_by(self, overrides: Any) -> Habits:
        if not isinstance(overrides, dict):
            return self
        known = {field.name for field in fields(self)}
        return replace(self, **{name: value for name, value in overrides.items() if name in known})
