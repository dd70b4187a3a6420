"""Questions to the hub, in the words of its own library, which only the process for it imports."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.cookiejar import DefaultCookiePolicy
from typing import ClassVar, Final, TypeVar

import httpx2
from huggingface_hub import constants, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status, validate_repo_id

from lemonpod.errors import (
    HubAccessError,
    HubBusyError,
    HubNotFoundError,
    HubOfflineError,
    LemonpodError,
    ModelPullError,
)
from lemonpod.pull.repo import Found, Listing, found_in, listing_in

TRIES: Final = 5
"""In a row without a byte of progress."""
_LONGEST_WAIT: Final = 30.0
"""A hub that wants to be left alone for longer is told of, not waited for."""
_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
# A cookie that is not ASCII would be the end of every further request.
_NO_COOKIES: Final = DefaultCookiePolicy(allowed_domains=())
_LONGEST: Final = 64 << 20
"""Of an answer: a listing of tens of thousands of files."""

_OF_THE_LIBRARY: Final = (
    HfHubHTTPError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    OfflineModeIsEnabled,
    HFValidationError,
)

T = TypeVar("T")


class Patience:
    """Says how long to wait before the next try, until there is none."""

    first_wait: ClassVar[float]
    """Seconds; each further wait in a row is twice as long."""

    def __init__(self) -> None:
        self._failed = 0

    def progress(self) -> None:
        """Something came: what failed before counts no more."""
        self._failed = 0

    def wait(self, error: Exception) -> None:
        """Sleep before the next try; raises `error` if it is final, or was the last that is put up with."""
        pause = self.first_wait * 2**self._failed
        if isinstance(error, HfHubHTTPError):
            if error.response.status_code not in _AGAIN:
                raise error
            pause = max(pause, _retry_after(error.response))
        self._failed += 1
        if self._failed >= TRIES or pause > _LONGEST_WAIT:
            raise error
        time.sleep(pause)


def list_repo(repo: str) -> Listing:
    """The repository as it is now on its main branch. Raises ModelPullError."""
    with told(repo):
        validate_repo_id(repo)
    return _read(repo, f"/api/models/{repo}", {"blobs": "true"}, lambda answer: listing_in(answer, repo))


def search(query: str, *, limit: int, gguf: bool) -> list[Found]:
    """The repositories that fit, those first that are fetched most. Raises ModelPullError."""
    parameters: dict[str, str | int] = {"search": query, "limit": limit, "sort": "downloads"}
    if gguf:
        parameters["filter"] = "gguf"
    return _read(query, "/api/models", parameters, found_in)


def _read(subject: str, path: str, parameters: Mapping[str, str | int], read: Callable[[object], T]) -> T:
    """What the hub answers, of which `read` makes a value, or raises ValueError.

    Not over HfApi: it waits by itself where the hub wants to be left alone, for as long as it is told, and
    without an end for an answer that never comes.
    """
    url = str(httpx2.URL(constants.ENDPOINT + path, params=parameters))
    try:
        with told(subject):
            answer = _patiently(lambda: _asked(url))
        return read(json.loads(answer))
    except (ValueError, RecursionError) as error:
        raise ModelPullError(
            f"the hub's answer for '{subject}' is none: {error}",
            hint=f"see whether it is a hub that answers at {constants.ENDPOINT}",
        ) from error


def _asked(url: str) -> bytes:
    answer = bytearray()
    with _answering(url, build_hf_headers()) as response:
        for chunk in response.iter_bytes():
            answer += chunk
            if len(answer) > _LONGEST:
                raise ValueError(f"it is longer than {_LONGEST >> 20} MiB")
    return bytes(answer)


@contextmanager
def opened(repo: str, commit: str, path: str, start: int) -> Iterator[httpx2.Response]:
    """The content of a file from byte `start` on, or from its beginning where the hub knows no ranges."""
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with _answering(hf_hub_url(repo, path, revision=commit), headers) as response:
        yield response


@contextmanager
def _answering(url: str, headers: Mapping[str, str]) -> Iterator[httpx2.Response]:
    timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
    session = get_session()
    session.cookies.jar.set_policy(_NO_COOKIES)
    with session.stream("GET", url, headers=headers, timeout=timeout, follow_redirects=True) as response:
        try:
            hf_raise_for_status(response)
        except (AttributeError, LookupError, RecursionError, TypeError, UnicodeDecodeError) as error:
            # The library takes the body of an error for what it should be.
            raise HfHubHTTPError(f"status {response.status_code}", response=response) from error
        yield response


@contextmanager
def told(repo: str) -> Iterator[None]:
    """Turn what the hub's library raises into errors of ours."""
    try:
        yield
    except _OF_THE_LIBRARY as error:
        raise _ours(error, repo) from error


def _ours(error: Exception, repo: str) -> LemonpodError:
    where = constants.ENDPOINT
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
    match error:
        case OfflineModeIsEnabled():
            return HubOfflineError("nothing may be fetched in offline mode", hint="unset HF_HUB_OFFLINE")
        case GatedRepoError():
            return HubAccessError(
                f"'{repo}' is gated, and this account has no access",
                hint=f"accept its terms on {where}/{repo}, and give the server that account's HF_TOKEN",
            )
        case RevisionNotFoundError() | RemoteEntryNotFoundError():
            return HubNotFoundError(f"'{repo}' has changed meanwhile on {where}", hint="pull it again")
        case RepositoryNotFoundError() | HFValidationError():
            return HubNotFoundError(
                f"there is no '{repo}' on {where}, or it is private",
                hint="check its name; for a private one give the server its account's HF_TOKEN",
            )
    if status in {401, 403}:
        return HubAccessError(
            f"{where} refuses access to '{repo}' ({status})", hint="check the server's HF_TOKEN"
        )
    if status == 429:
        return HubBusyError(f"{where} limits how often it may be asked", hint="pull again later")
    if status is not None:
        return ModelPullError(f"{where} answered {status} for '{repo}'", hint="pull again later")
    text = str(error) or type(error).__name__
    return ModelPullError(f"{where} cannot be reached: {text}", hint="what has come is kept; pull again")


def _patiently(ask: Callable[[], T]) -> T:
    patience = Patience()
    while True:
        try:
            return ask()
        except (HfHubHTTPError, httpx2.TransportError) as error:
            patience.wait(error)


def _retry_after(response: httpx2.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0
