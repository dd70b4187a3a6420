"""Questions to the hub, in the words of its own library, which only the process for it imports."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeVar

import httpx2
from huggingface_hub import HfApi, constants, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

from lemonpod.errors import (
    HubAccessError,
    HubBusyError,
    HubNotFoundError,
    HubOfflineError,
    LemonpodError,
    ModelPullError,
)
from lemonpod.models.parse import has_control
from lemonpod.pull.repo import Found, Listing, RemoteFile

TRIES: Final = 5
"""In a row without a byte of progress."""
_LONGEST_WAIT: Final = 30.0
"""A hub that wants to be left alone for longer is told of, not waited for."""
_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_ETAG: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

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

    def ask() -> Listing:
        info = HfApi().model_info(repo, files_metadata=True)
        files = [
            RemoteFile(
                path=sibling.rfilename,
                size=sibling.size or 0,
                etag=sibling.lfs.sha256 if sibling.lfs else sibling.blob_id or "",
            )
            for sibling in info.siblings or []
        ]
        return _checked(Listing(repo=repo, commit=info.sha or "", files=tuple(sorted(files, key=_path))))

    with told(repo):
        return _patiently(ask)


def search(query: str, *, limit: int, gguf: bool) -> list[Found]:
    """The repositories that fit, those first that are fetched most. Raises ModelPullError."""

    parameters: dict[str, str | int] = {"search": query, "limit": limit, "sort": "downloads"}
    if gguf:
        parameters["filter"] = "gguf"

    def ask() -> list[Found]:
        # Not over HfApi: it waits by itself where the hub wants to be left alone, for as long as it is told.
        response = get_session().get(
            f"{constants.ENDPOINT}/api/models",
            params=parameters,
            headers=build_hf_headers(),
            timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
        )
        hf_raise_for_status(response)
        return [_found(info) for info in response.json()]

    with told(query):
        return _patiently(ask)


@contextmanager
def opened(repo: str, commit: str, path: str, start: int) -> Iterator[httpx2.Response]:
    """The content of a file from byte `start` on, or from its beginning where the hub knows no ranges."""
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
    url = hf_hub_url(repo, path, revision=commit)
    with get_session().stream(
        "GET", url, headers=headers, timeout=timeout, follow_redirects=True
    ) as response:
        hf_raise_for_status(response)
        yield response


@contextmanager
def told(repo: str) -> Iterator[None]:
    """Turn what the hub's library raises into errors of ours."""
    try:
        yield
    except (HfHubHTTPError, httpx2.HTTPError, OfflineModeIsEnabled, HFValidationError) as error:
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


def _checked(listing: Listing) -> Listing:
    """Its names become paths of ours: none may lead out of the cache, whoever answered."""
    parts = [part for path in listing.paths for part in path.split("/")]
    is_odd = any("\\" in part or has_control(part) or part in {"", ".", ".."} for part in parts)
    if is_odd or not _COMMIT.fullmatch(listing.commit):
        raise ModelPullError(f"the hub's answer for '{listing.repo}' is none")
    if not all(_ETAG.fullmatch(file.etag) for file in listing.files):
        raise ModelPullError(f"the hub's answer for '{listing.repo}' lacks hashes of its files")
    return listing


def _found(info: Mapping[str, Any]) -> Found:
    return Found(
        repo=str(info["id"]),
        tags=tuple(map(str, info.get("tags") or ())),
        task=str(info.get("pipeline_tag") or ""),
        downloads=int(info.get("downloads") or 0),
        likes=int(info.get("likes") or 0),
    )


def _path(file: RemoteFile) -> str:
    return file.path


def _retry_after(response: httpx2.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0
