"""Stands in for the Hugging Face hub over real sockets: API, redirects, ranges, and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "a" * 40


def etag_of(content: bytes, *, lfs: bool) -> str:
    """What the hub calls a content: its sha256, or for small files git's hash."""
    if lfs:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass
class Repo:
    files: dict[str, bytes]
    commit: str = COMMIT
    sizes: dict[str, int] = field(default_factory=dict)
    """Claimed instead of the true ones."""
    status: int = 200
    """Of every answer about it."""
    error_code: str | None = None
    tags: list[str] = field(default_factory=list)

    def is_lfs(self, path: str) -> bool:
        return path.endswith((".gguf", ".safetensors", ".bin"))


def listing_of(name: str, repo: Repo) -> dict[str, Any]:
    """What the hub says of a repository."""
    siblings = []
    for path, content in repo.files.items():
        size = repo.sizes.get(path, len(content))
        sibling = {"rfilename": path, "size": size, "blobId": etag_of(content, lfs=False)}
        if repo.is_lfs(path):
            sibling["lfs"] = {"sha256": etag_of(content, lfs=True), "size": size, "pointerSize": 1}
        siblings.append(sibling)
    return {"id": name, "modelId": name, "sha": repo.commit, "siblings": siblings}


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    range: str | None
    authorization: str | None


@dataclass
class HubSite:
    """What it holds, and how it is to misbehave."""

    url: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list, init=False)
    cut_after: list[int] = field(default_factory=list)
    """How many bytes the next answers with content send before their connection is cut."""
    refuse: list[tuple[int, Mapping[str, str]]] = field(default_factory=list)
    """Status and headers of the next answers, instead of what was asked for."""
    swapped: dict[str, bytes] = field(default_factory=dict)
    """By path, content that is sent instead of what was promised."""
    listing: bytes | None = field(default=None, init=False)
    """Sent instead of any repository's."""
    content: tuple[int, Mapping[str, str], bytes] | None = None
    """Status, headers and body sent instead of any file's content."""
    ranges: bool = True
    silent: bool = False
    """It takes every connection, and says nothing."""
    gate: threading.Event | None = None
    """Content after its first half waits for it."""
    over: threading.Event = field(default_factory=threading.Event, init=False)
    """The site is being closed."""

    def contents(self) -> list[Asked]:
        """The requests for content."""
        return [asked for asked in self.asked if asked.path.startswith("/cdn/")]


@contextmanager
def hub_site() -> Iterator[HubSite]:
    """A hub that listens until the block ends."""
    site = HubSite()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            site.asked.append(
                Asked(self.command, path, self.headers.get("Range"), self.headers.get("Authorization"))
            )
            if site.silent:
                site.over.wait(30)
            elif site.refuse:
                status, headers = site.refuse.pop(0)
                self._answer(status, b"{}", headers)
            elif path == "/api/models":
                self._search(parse_qs(urlsplit(self.path).query))
            elif path.startswith("/api/models/"):
                self._info(path.removeprefix("/api/models/").partition("/revision/")[0])
            elif path.startswith("/cdn/"):
                self._content(*path.removeprefix("/cdn/").split("/resolve/"))
            elif "/resolve/" in path:
                self._resolve(path.lstrip("/"))
            else:
                self._answer(404, b"{}")

        do_HEAD = do_GET

        def _info(self, name: str) -> None:
            if self._refused(name):
                return
            body = site.listing
            if body is None:
                body = json.dumps(listing_of(name, site.repos[name])).encode()
            self._answer(200, body, {"Content-Type": "application/json"})

        def _search(self, query: dict[str, list[str]]) -> None:
            found = [
                {"id": name, "tags": repo.tags, "downloads": len(repo.files), "likes": 1}
                for name, repo in site.repos.items()
                if query["search"][0] in name and set(query.get("filter", [])) <= set(repo.tags)
            ]
            body = json.dumps(found[: int(query["limit"][0])]).encode()
            self._answer(
                200, body if site.listing is None else site.listing, {"Content-Type": "application/json"}
            )

        def _refused(self, name: str) -> bool:
            repo = site.repos.get(name)
            if repo is None:
                self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            elif repo.status != 200:
                self._answer(repo.status, b"{}", {"X-Error-Code": repo.error_code} if repo.error_code else {})
            return repo is None or repo.status != 200

        def _resolve(self, path: str) -> None:
            name, _, rest = path.partition("/resolve/")
            if self._refused(name):
                return
            repo, file = site.repos[name], rest.partition("/")[2]
            content = repo.files[file]
            self._answer(
                302,
                b"",
                {
                    "Location": f"{site.url}/cdn/{name}/resolve/{file}",
                    "X-Repo-Commit": repo.commit,
                    "X-Linked-Etag": f'"{etag_of(content, lfs=repo.is_lfs(file))}"',
                    "X-Linked-Size": str(len(content)),
                },
            )

        def _content(self, name: str, file: str) -> None:
            if site.content is not None:
                status, headers, body = site.content
                self._answer(status, body, headers)
                return
            content = site.swapped.get(file, site.repos[name].files[file])
            start = 0
            if site.ranges and (wanted := self.headers.get("Range")):
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                if start >= len(content):
                    self._answer(416, b"")
                    return
            body = content[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if site.cut_after:
                self.wfile.write(body[: site.cut_after.pop(0)])
                self._cut()
                return
            half = len(body) // 2
            self.wfile.write(body[:half])
            if site.gate is not None:
                site.gate.wait(30)
            self.wfile.write(body[half:])

        def _cut(self) -> None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def _answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for key, value in ({"Content-Length": str(len(body))} | dict(headers or {})).items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:  # a client that left
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield site
        finally:
            site.over.set()
            if site.gate is not None:
                site.gate.set()
            server.shutdown()
            thread.join()
