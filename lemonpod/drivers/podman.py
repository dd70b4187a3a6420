"""Podman over its own API, libpod, on the sessions of podman-py."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from lemonpod.drivers import records
from lemonpod.drivers.address import Address
from lemonpod.drivers.api_runtime import ApiRuntime
from lemonpod.drivers.calls import Client, secure
from lemonpod.drivers.podman_body import podman_create
from lemonpod.launch.container import ContainerSpec

_PLAIN: Final = MappingProxyType({"unix": "unix", "https": "http"})
"""What podman-py is told for a scheme: it makes no difference between http and https until it asks."""


class PodmanRuntime(ApiRuntime):
    """The podman service at an address. No connection is made before the first call."""

    stop_grace = "timeout"
    forever = str(2**31 - 1)
    at_once = MappingProxyType({"timeout": "0"})

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._address = address

    def _connect(self) -> Client:
        from podman.api.client import APIClient

        scheme, _, place = self._address.url.partition("://")
        api = APIClient(base_url=f"{_PLAIN.get(scheme, 'http')}://{place}")
        secure(api, self._address)
        secured = scheme == "https" or self._address.tls is not None
        return Client(api, f"http{'s' if secured else ''}://{api.base_url.netloc}/v{api.version}/libpod")

    def _create_request(self, spec: ContainerSpec) -> tuple[dict[str, str], dict[str, Any]]:
        return podman_create(spec)

    def _log_is_framed(self, record: records.Json) -> bool:
        return True  # of a container with a terminal, too
