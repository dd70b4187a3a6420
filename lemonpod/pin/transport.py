"""One request to a registry and its whole answer, with the reason where there is none.

An Authorization header goes to the address that it was made for and nowhere else: not along a redirect to
another host, and never over plain HTTP but to this machine.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException, HTTPMessage
from typing import IO, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from lemonpod import __version__
from lemonpod.pin.source import DigestError, UnreachableError

TIMEOUT: Final = 15.0
"""Seconds without a byte."""
_LARGEST: Final = 4 << 20
"""Of a manifest, as registries limit it themselves."""


@dataclass(frozen=True, slots=True)
class Answer:
    url: str
    """Of whoever answered at last."""
    status: int
    headers: Message
    body: bytes


def send(method: str, url: str, headers: Mapping[str, str], *, authorization: str | None = None) -> Answer:
    """The answer, whatever its status; raises UnreachableError where there is none."""
    request = Request(url, headers={"User-Agent": f"lemonpod/{__version__}", **headers}, method=method)  # noqa: S310
    if authorization is not None:
        request.add_unredirected_header("Authorization", authorization)
    handlers = [ProxyHandler({})] if is_loopback(url) else []  # else the environment's proxies
    opener = build_opener(*handlers, _Redirects)
    host = urlsplit(url).netloc
    try:
        try:
            response = opener.open(request, timeout=TIMEOUT)
        except HTTPError as error:
            response = error
        with response:
            body = response.read(_LARGEST + 1)
    except (OSError, HTTPException, ValueError) as error:
        raise UnreachableError(f"{host} cannot be reached: {_reason(error)}", hint=_hint(error)) from error
    if len(body) > _LARGEST:
        raise DigestError(f"{host} answers with more than {_LARGEST >> 20} MiB")
    return Answer(response.url, response.status, response.headers, body)


def is_loopback(url: str) -> bool:
    """Whether `url` is on this machine, by its own words and not by those of a name server."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def may_name(server: str, url: str) -> bool:
    """Whether the server at `server` may send us on to `url`: over HTTPS, or from this machine to itself.

    Elsewhere others could read along and change the answer, and a server of another machine has no business
    with what listens on this one.
    """
    try:
        scheme = urlsplit(url).scheme
        return scheme == "https" or (scheme == "http" and is_loopback(url) and is_loopback(server))
    except ValueError:  # no address at all
        return False


def origin(url: str) -> tuple[str, str]:
    """Scheme and host with port: who would read what is sent to `url`."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


class _Redirects(HTTPRedirectHandler):
    """Followed with the method that was asked for, and only to where the server may send us on."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not may_name(req.full_url, newurl):
            raise URLError(f"it redirects to {newurl}, which is not HTTPS")
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None:
            following.method = req.get_method()
            if origin(newurl) == origin(req.full_url) and req.has_header("Authorization"):
                following.add_unredirected_header("Authorization", str(req.get_header("Authorization")))
        return following


def _reason(error: BaseException) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, socket.gaierror):
        return "there is no host of that name, or no name server"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, TimeoutError):
        return f"no answer for {TIMEOUT:.0f} s"
    if isinstance(cause, HTTPException):
        return "it broke off its answer"
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause)


def _hint(error: BaseException) -> str | None:
    cause = getattr(error, "reason", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "SSL_CERT_FILE may name a file of certificates to trust"
    return None
