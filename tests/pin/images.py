"""Images pushed to a registry by its own API, with no engine that would change them."""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import tarfile
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

_OCI: Final = "application/vnd.oci.image"
_MANIFEST: Final = f"{_OCI}.manifest.v1+json"
_PLATFORMS: Final = ({"os": "linux", "architecture": "amd64"}, {"os": "linux", "architecture": "arm64"})


@dataclass(frozen=True)
class Images:
    """Of the registry at `host`."""

    host: str

    def push(self, repository: str, tag: str, content: str) -> str:
        """An image that holds a file of that name; returns the digest of its manifest."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.addfile(tarfile.TarInfo(content))
        layers = [self._blob(repository, buffer.getvalue(), f"{_OCI}.layer.v1.tar")]
        of_image = {
            **_PLATFORMS[0],
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
        config = self._blob(repository, json.dumps(of_image).encode(), f"{_OCI}.config.v1+json")
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers}
        return self._put(repository, tag, manifest)

    def push_index(self, repository: str, tag: str, *manifests: str) -> str:
        """An index of manifests that are there; returns its digest."""
        listed = [
            {
                "mediaType": _MANIFEST,
                "digest": digest,
                "size": self._size(repository, digest),
                "platform": platform,
            }
            for digest, platform in zip(manifests, _PLATFORMS, strict=True)
        ]
        return self._put(
            repository, tag, {"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": listed}
        )

    def delete(self, repository: str, digest: str) -> None:
        self._request("DELETE", f"/v2/{repository}/manifests/{digest}", expected=202)

    def _size(self, repository: str, digest: str) -> int:
        with closing(http.client.HTTPConnection(self.host, timeout=10)) as connection:
            connection.request("GET", f"/v2/{repository}/manifests/{digest}", headers={"Accept": _MANIFEST})
            return len(connection.getresponse().read())

    def _blob(self, repository: str, content: bytes, media_type: str) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        where = self._request("POST", f"/v2/{repository}/blobs/uploads/", expected=202).partition("/v2/")[2]
        self._request(
            "PUT", f"/v2/{where}&digest={digest}", content, "application/octet-stream", expected=201
        )
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def _put(self, repository: str, tag: str, manifest: dict[str, Any]) -> str:
        body = json.dumps(manifest).encode()
        self._request("PUT", f"/v2/{repository}/manifests/{tag}", body, manifest["mediaType"], expected=201)
        return f"sha256:{hashlib.sha256(body).hexdigest()}"

    def _request(
        self, method: str, path: str, body: bytes = b"", kind: str = "text/plain", *, expected: int
    ) -> str:
        """The location that is answered."""
        with closing(http.client.HTTPConnection(self.host, timeout=10)) as connection:
            connection.request(method, path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            assert answer.status == expected, (answer.status, answer.read())
            return answer.headers.get("Location", "")
