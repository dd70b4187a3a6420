"""An image of random bytes, put into a registry directly: nobody has its layers, and a pull takes a while."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from hashlib import sha256
from http.client import HTTPConnection
from typing import Any, Final

from tests.lab.errors import LabError
from tests.lab.registry import Registry

_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG: Final = "application/vnd.docker.container.image.v1+json"
_LAYER: Final = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def put_random_image(registry: Registry, tag: str, *, megabytes: int = 20) -> str:
    """The reference of a new image `name:tag` with one layer of that size."""
    name, _, version = tag.rpartition(":")
    tar = _tar_of(os.urandom(megabytes << 20))
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": ["/random"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(tar)]},
    }
    connection = HTTPConnection(registry.address, timeout=60)
    try:
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _upload(connection, name, json.dumps(config).encode(), _CONFIG),
            "layers": [_upload(connection, name, gzip.compress(tar, compresslevel=0), _LAYER)],
        }
        content = json.dumps(manifest).encode()
        _ask(connection, "PUT", f"/v2/{name}/manifests/{version}", content, {"Content-Type": _MANIFEST})
    finally:
        connection.close()
    return f"{registry.address}/{tag}"


def _tar_of(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("random")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _upload(connection: HTTPConnection, name: str, content: bytes, kind: str) -> dict[str, Any]:
    place = _ask(connection, "POST", f"/v2/{name}/blobs/uploads/")
    joint = "&" if "?" in place else "?"
    kinds = {"Content-Type": "application/octet-stream"}
    _ask(connection, "PUT", f"{place}{joint}digest={_digest(content)}", content, kinds)
    return {"mediaType": kind, "size": len(content), "digest": _digest(content)}


def _ask(
    connection: HTTPConnection,
    method: str,
    target: str,
    content: bytes = b"",
    headers: dict[str, str] | None = None,
) -> str:
    """The place that the answer names."""
    connection.request(method, target, content, headers or {})
    answer = connection.getresponse()
    said = answer.read()
    if answer.status not in {201, 202}:
        raise LabError(f"{method} {target}: {answer.status} {said!r}")
    return answer.getheader("Location") or ""


def _digest(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"
