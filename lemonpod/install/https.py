"""HTTPS as the download needs it: redirects stay within it, and failures say what happened."""

from __future__ import annotations

import socket
import ssl
from http.client import HTTPException, HTTPMessage, InvalidURL
from typing import IO, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from lemonpod.errors import DownloadError

PATIENCE: Final = 30.0
"""Seconds without a byte."""


class _HttpsOnly(HTTPRedirectHandler):
    """Elsewhere others could exchange what comes, which a file that rolls forward has no digest for."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme != "https":
            raise DownloadError(
                f"download failed: {host_of(req.full_url)} redirects to {newurl}, which is not HTTPS"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener() -> OpenerDirector:
    """Opens addresses with this machine's proxies and certificates (`HTTPS_PROXY`, `SSL_CERT_FILE`)."""
    return build_opener(_HttpsOnly)


def host_of(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def reason(error: BaseException) -> str:
    """Why there is no answer, in words of people."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, socket.gaierror):
        return "there is no host of that name, or no name server"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted: {cause.verify_message} (SSL_CERT_FILE may name others to trust)"
        )
    if isinstance(cause, TimeoutError):
        return f"nothing came for {PATIENCE:.0f} s"
    if isinstance(cause, InvalidURL):
        return "its address is malformed"
    if isinstance(cause, HTTPException):
        return "it broke off its answer"
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause)
