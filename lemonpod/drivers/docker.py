"""Docker over its Engine API, on the sessions of docker-py."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lemonpod.contract.image import ImageRef, parse_image
from lemonpod.drivers import records
from lemonpod.drivers.api_runtime import DOCKER_HUB, ApiRuntime, PullRequest, accepted, container_path
from lemonpod.drivers.calls import READ_TIMEOUT, Client, is_tls, secure
from lemonpod.drivers.docker_body import docker_create
from lemonpod.drivers.local import is_local
from lemonpod.drivers.runtime import RuntimeInfo, Usage
from lemonpod.errors import ImageError, PullError
from lemonpod.launch.container import ContainerSpec, Platform, PullPolicy, Runtime

if TYPE_CHECKING:
    from docker import APIClient

_ANY_VERSION: Final = "1.24"
"""The least that docker-py speaks; the daemon's own takes its place before anything is asked."""


class DockerRuntime(ApiRuntime):
    """The docker daemon at an address. No connection is made before the first call."""

    program = Runtime.DOCKER
    stop_grace = "t"
    forever = "-1"
    volumes = "v"
    at_once = MappingProxyType[str, str]({})

    def info(self) -> RuntimeInfo:
        what = "cannot ask docker about itself"
        version = accepted(self._calls.ask("GET", "/version"), what).json()
        host = accepted(self._calls.ask("GET", "/info"), what).json()
        return RuntimeInfo(
            runtime=self.program,
            version=str(version.get("Version") or ""),
            api_version=str(version.get("ApiVersion") or ""),
            rootless="name=rootless" in (host.get("SecurityOptions") or ()),
            local=is_local(self._address, host.get("KernelVersion")),
        )

    def usage(self, container: str) -> Usage:
        query = {"stream": "false", "one-shot": "true"}
        answer = self._calls.ask("GET", f"{container_path(container)}/stats", query=query)
        return records.docker_usage(answer.json()) if answer.ok else records.UNKNOWN_USAGE

    def _connect(self) -> Client:
        """Speaks the daemon's newest API, as docker-py does, whose own asking hides why it got no answer."""
        api = self._client()
        version = api.version(api_version=False)["ApiVersion"]
        return Client(api, f"{api.base_url}/v{version}")

    def _client(self) -> APIClient:
        from docker import APIClient
        from docker.transport import UnixHTTPAdapter

        url, timeout = self._address.url, int(READ_TIMEOUT)
        api = APIClient(base_url=url, version=_ANY_VERSION, tls=is_tls(self._address), timeout=timeout)
        if self._address.socket is not None:
            # Its own would keep a connection open for every path that was asked, and does not hear num_pools.
            single = UnixHTTPAdapter(f"http+unix://{self._address.socket}", timeout, pool_connections=1)
            api.mount(api.base_url, single)
        secure(api, self._address)
        return api

    def _create_request(self, spec: ContainerSpec) -> tuple[dict[str, str], dict[str, Any]]:
        return docker_create(spec)

    def _pull_request(self, reference: str, policy: PullPolicy, platform: Platform | None) -> PullRequest:
        """By digest where there is one: beside it, a tag is a remark."""
        if policy is PullPolicy.NEWER:
            raise PullError("docker has no pull policy 'newer'", hint="use always or missing")
        try:
            image = parse_image(reference)
        except ImageError as error:
            raise PullError(f"cannot pull {reference}: {error.message}", hint=error.hint) from error
        name = image.repository if image.registry is None else f"{image.registry}/{image.repository}"
        query = {"fromImage": name, "tag": image.digest or image.tag or "latest"}
        if platform is not None:
            query["platform"] = str(platform)
        return PullRequest(calls=self._calls, path="/images/create", query=query, headers=self._login(image))

    def _login(self, image: ImageRef) -> dict[str, str]:
        """What the user has logged in with, from docker's configuration or its credential helpers."""
        from docker.auth import get_config_header
        from docker.errors import DockerException

        try:
            header = get_config_header(self._client(), image.registry or DOCKER_HUB)
        except DockerException as error:
            hint = "see ~/.docker/config.json: credsStore and credHelpers name the program"
            raise PullError(f"cannot read docker's login for {image}: {error}", hint=hint) from error
        return {} if header is None else {"X-Registry-Auth": str(header, "ascii")}

    def _log_is_framed(self, record: records.Json) -> bool:
        return not records.has_terminal(record)
