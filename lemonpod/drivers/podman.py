"""Podman over its own API, libpod, on the sessions of podman-py."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lemonpod.contract.image import parse_image
from lemonpod.drivers import records
from lemonpod.drivers.address import Address
from lemonpod.drivers.api_runtime import ApiRuntime, PullRequest, accepted, container_path
from lemonpod.drivers.calls import Calls, Client, is_tls, secure
from lemonpod.drivers.local import is_local
from lemonpod.drivers.podman_body import podman_create
from lemonpod.drivers.runtime import Halt, RuntimeInfo, Usage
from lemonpod.drivers.streams import Demultiplexer
from lemonpod.errors import ImageError, RuntimeUnavailableError
from lemonpod.launch.container import ContainerSpec, Platform, PullPolicy, Runtime

if TYPE_CHECKING:
    from podman.api.client import APIClient

_TELLS_BYTES: Final = 5
"""The version whose own pull tells of bytes when asked to; before, only its imitation of docker's does."""
_LAST_SECONDS: Final = 2
_LAST_BYTES: Final = 16 << 10
_COMPARED: Final = 4096
_LINES_MISSING: Final = b"\n(podman has left out lines here)\n"


class PodmanRuntime(ApiRuntime):
    """The podman service at an address. No connection is made before the first call.

    The service logs in to registries with what it finds itself, in the auth file of its user.
    """

    program = Runtime.PODMAN
    stop_grace = "timeout"
    forever = str(2**31 - 1)
    volumes = "volumes"  # "v" is heard only by its imitation of docker
    at_once = MappingProxyType({"timeout": "0"})

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._like_docker = Calls(address, self._connect_like_docker)

    def info(self) -> RuntimeInfo:
        answer = self._calls.ask("GET", "/info")
        if answer.status == 404:
            text = f"what answers at {self._address} is not podman"
            raise RuntimeUnavailableError(text, hint=f"correct {self._address.origin}")
        said = accepted(answer, "cannot ask podman about itself").json()
        host, version = said.get("host") or {}, said.get("version") or {}
        return RuntimeInfo(
            runtime=self.program,
            version=str(version.get("Version") or ""),
            api_version=str(version.get("APIVersion") or ""),
            rootless=bool((host.get("security") or {}).get("rootless")),
            local=is_local(self._address, host.get("kernel")),
        )

    def logs(
        self, container: str, write: Callable[[bytes], None], halt: Halt, *, follow: bool = True
    ) -> None:
        """While podman follows a log it drops some of what comes in a flood just before the end."""
        if not follow:
            super().logs(container, write, halt, follow=False)
            return
        end = b""

        def write_and_keep(written: bytes) -> None:
            nonlocal end
            end = (end + written)[-_COMPARED:]
            write(written)

        super().logs(container, write_and_keep, halt)
        last = self._last_of_log(container)
        if not end.endswith(last[-_COMPARED:]):
            if len(last) > _LAST_BYTES:
                last = last[-_LAST_BYTES:].partition(b"\n")[2]
            write(_LINES_MISSING + last)

    def usage(self, container: str) -> Usage:
        query = {"containers": container, "stream": "false"}
        answer = self._calls.ask("GET", "/containers/stats", query=query)
        # Rootless without cgroups v2 it cannot tell, and of one that is gone nobody can.
        return records.podman_usage(answer.json()) if answer.ok else records.UNKNOWN_USAGE

    def close(self) -> None:
        super().close()
        self._like_docker.close()

    def _connect(self) -> Client:
        api = self._client()
        return self._rooted(api, api.path_prefix)

    def _connect_like_docker(self) -> Client:
        api = self._client()
        return self._rooted(api, api.compatible_prefix)

    def _client(self) -> APIClient:
        from podman.api.client import APIClient

        scheme, _, place = self._address.url.partition("://")
        # podman-py knows no https: to it a session over TCP is for both.
        api = APIClient(base_url=f"{'unix' if scheme == 'unix' else 'http'}://{place}")
        secure(api, self._address)
        return api

    def _rooted(self, api: APIClient, prefix: str) -> Client:
        scheme = "https" if is_tls(self._address) else "http"
        return Client(api, f"{scheme}://{api.base_url.netloc}{prefix.rstrip('/')}")

    def _create_request(self, spec: ContainerSpec) -> tuple[dict[str, str], dict[str, Any]]:
        return podman_create(spec)

    def _pull_request(self, reference: str, policy: PullPolicy, platform: Platform | None) -> PullRequest:
        """Podman before 5 resolves a short name only where it tells of no bytes."""
        if policy is not PullPolicy.NEWER and _is_whole(reference) and self._major() < _TELLS_BYTES:
            query = {"fromImage": reference}
            if platform is not None:
                query["platform"] = str(platform)
            return PullRequest(calls=self._like_docker, path="/images/create", query=query)
        query = {"reference": reference, "policy": policy.value, "compatMode": "true"}
        if platform is not None:
            said = {"OS": platform.os, "Arch": platform.arch, "Variant": platform.variant}
            query |= {name: value for name, value in said.items() if value is not None}
        return PullRequest(calls=self._calls, path="/images/pull", query=query)

    def _major(self) -> int:
        version = accepted(self._calls.ask("GET", "/version"), "cannot ask podman its version").json()
        return int(version["Version"].partition(".")[0])

    def _last_of_log(self, container: str) -> bytes:
        """What an ended container wrote in its last seconds, read without following it.

        Not by `tail`, with which podman before 5 mixes up unfinished lines.
        """
        info = self.inspect(container)
        if info is None or info.finished_at is None:
            return b""
        since = str(int(info.finished_at) - _LAST_SECONDS)
        query = {"stdout": "true", "stderr": "true", "since": since}
        answer = self._calls.ask("GET", f"{container_path(container)}/logs", query=query)
        frames = Demultiplexer()
        return frames.feed(answer.body) + frames.end() if answer.ok else b""

    def _log_is_framed(self, record: records.Json) -> bool:
        return True  # of a container with a terminal, too


def _is_whole(reference: str) -> bool:
    """Whether it names a registry, so that nothing is to be resolved."""
    try:
        return parse_image(reference).registry is not None
    except ImageError:
        return False
