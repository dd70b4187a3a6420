"""A real HTTPS server with a certificate of a CA of its own, that behaves as well or badly as a test asks."""

from __future__ import annotations

import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

_EXTENSIONS = "basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n"


@dataclass
class Page:
    """One address. `break_after`: of each answer so many bytes are sent, while there are numbers left."""

    content: bytes = b""
    etag: str | None = '"1"'
    last_modified: str | None = None
    ranges: bool = True
    length: bool = True
    wrong_range: bool = False
    status: int = 200
    statuses: list[int] = field(default_factory=list)
    """Of the first answers."""
    location: str | None = None
    break_after: list[int] = field(default_factory=list)
    others: list[bytes] = field(default_factory=list)
    """What the first answers give in place of the content."""
    stall_after: int | None = None
    """So many bytes are sent, and the rest when the site ends."""


@dataclass
class Site:
    """The pages of a server, and what it was asked."""

    url: str
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    """Path, `Range` and `If-Range` of each request."""

    def add(self, path: str, content: bytes = b"", **page: Any) -> str:
        """Serve a page; returns its address."""
        self.pages[path] = Page(content, **page)
        return self.url + path


@dataclass(frozen=True)
class Certificates:
    """Files: the CA's certificate, and the server's with its key."""

    ca: Path
    server: Path


def make_certificates(folder: Path) -> Certificates:
    """A CA that lives for a day, and a certificate of it for this machine's loopback address."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    (folder / "extensions").write_text(_EXTENSIONS)
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "1", "-subj", "/CN=test CA")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    openssl(*["x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"],
            *["-out", "server.crt", "-days", "1", "-extfile", "extensions"])  # fmt: skip
    server = folder / "server.pem"
    server.write_text((folder / "server.crt").read_text() + (folder / "server.key").read_text())
    return Certificates(folder / "ca.pem", server)


@contextmanager
def serving(certificates: Certificates) -> Iterator[Site]:
    """A site on a port of its own."""
    server = _Server(("127.0.0.1", 0), _Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.site = Site(f"https://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.site
    finally:
        server.site.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    site: Site

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is none."""


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        site = cast(_Server, self.server).site
        asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
        site.asked.append((self.path, asked, condition))
        page = site.pages.get(self.path, Page(status=404))
        status = page.statuses.pop(0) if page.statuses else page.status
        content, start = page.others.pop(0) if page.others else page.content, 0
        if status == 200 and asked and page.ranges and condition in (None, page.etag, page.last_modified):
            start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])  # type: ignore[index]
            status = 206 if start < len(content) else 416
        self.send_response(status)
        if status == 206:
            told = start + 1 if page.wrong_range else start
            self.send_header("Content-Range", f"bytes {told}-{len(content) - 1}/{len(content)}")
        body = content[start:] if status in (200, 206) else b""
        for name, value in (
            ("ETag", page.etag),
            ("Last-Modified", page.last_modified),
            ("Location", page.location),
        ):
            if value is not None:
                self.send_header(name, value)
        if page.length or status != 200:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        sent = body[: page.break_after.pop(0)] if body and page.break_after else body
        with suppress(OSError):
            self.wfile.write(sent[: page.stall_after])
            if page.stall_after is not None:
                site.ended.wait()
        self.close_connection = True
