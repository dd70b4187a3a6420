"""Docker over its Engine API, on the sessions of docker-py."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from lemonpod.drivers import records
from lemonpod.drivers.address import Address
from lemonpod.drivers.api_runtime import ApiRuntime
from lemonpod.drivers.calls import READ_TIMEOUT, Client, secure
from lemonpod.drivers.docker_body import docker_create
from lemonpod.launch.container import ContainerSpec

_ANY_VERSION: Final = "1.24"
"""The least that docker-py speaks; it is replaced by the daemon's own before anything is asked."""


class DockerRuntime(ApiRuntime):
    """The docker daemon at an address. No connection is made before the first call."""

    stop_grace = "t"
    forever = "-1"
    at_once = MappingProxyType[str, str]({})

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._address = address

    def _connect(self) -> Client:
        """Speaks the daemon's newest API, as docker-py does; its own asking hides the reason of a failure."""
        from docker import APIClient

        tls = self._address.tls is not None or self._address.url.startswith("https://")
        api = APIClient(base_url=self._address.url, version=_ANY_VERSION, tls=tls, timeout=int(READ_TIMEOUT))
        secure(api, self._address)
        version = api.version(api_version=False)["ApiVersion"]
        return Client(api, f"{api.base_url}/v{version}")

    def _create_request(self, spec: ContainerSpec) -> tuple[dict[str, str], dict[str, Any]]:
        return docker_create(spec)

    def _log_is_framed(self, record: records.Json) -> bool:
        return not records.has_terminal(record)
