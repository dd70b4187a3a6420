"""Which engine of its runtime a command line asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from lemonpod.contract.location import shown
from lemonpod.errors import OnlyByCliError
from lemonpod.launch.argv.split import Option
from lemonpod.launch.container import Runtime

_URL: Final = frozenset({"--url", "--host"})
_OF_THE_CLIENT: Final = frozenset(
    """
    --connection --context --identity --remote --ssh --tls --tls-ca --tls-cert --tls-key --tlscacert
    --tlscert --tlskey --tlsverify
    """.split()  # noqa: SIM905
)
"""How the program itself reaches an engine: by its own configuration, keys and certificates."""
_HOST: Final[Mapping[Runtime, str]] = {Runtime.PODMAN: "CONTAINER_HOST", Runtime.DOCKER: "DOCKER_HOST"}
_CONTEXT: Final = "DOCKER_CONTEXT"
_OF_THE_PROGRAM: Final[Mapping[Runtime, frozenset[str]]] = {
    Runtime.PODMAN: frozenset(
        """
        CONTAINERS_CONF CONTAINERS_CONF_OVERRIDE CONTAINERS_REGISTRIES_CONF CONTAINERS_STORAGE_CONF
        CONTAINER_CONNECTION CONTAINER_SSHKEY REGISTRY_AUTH_FILE STORAGE_DRIVER STORAGE_OPTS
        """.split()  # noqa: SIM905
    ),
    Runtime.DOCKER: frozenset(
        "DOCKER_API_VERSION DOCKER_CERT_PATH DOCKER_CONFIG DOCKER_TLS DOCKER_TLS_VERIFY".split()  # noqa: SIM905
    ),
}
"""Variables that configure the program itself, and say nothing to an engine that runs already."""
_SSH: Final = "ssh://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """As far as the command line says: None leaves it to the caller's environment and the usual places."""

    url: str | None = None
    context: str | None = None
    """Of docker: the name of a set of connection settings."""


def connection(
    runtime: Runtime, options: tuple[Option, ...], env: Mapping[str, str], own: Mapping[str, str]
) -> Connection:
    """What the options of the program say; raises OnlyByCliError where only the program can get there.

    `own` is what is set for this command alone, `env` all that it sees.
    """
    url = context = None
    for option in options:
        if option.name in _URL:
            url = option.value
            if url.startswith(_SSH):
                _only_by_cli(runtime, f"'{option.name}' names an engine behind ssh", option.index)
        elif option.name == "--context" and runtime is Runtime.DOCKER:
            context = option.value
        elif option.name in _OF_THE_CLIENT and option.value != "false":
            why = f"'{option.name}' is about how the program itself reaches an engine"
            _only_by_cli(runtime, why, option.index)
    if unsayable := sorted(_OF_THE_PROGRAM[runtime] & own.keys()):
        _only_by_cli(runtime, f"its environment sets {unsayable[0]}, which configures the program itself", 0)
    if url is None and context is None:
        variable = _HOST[runtime]
        if env.get(variable, "").startswith(_SSH):
            _only_by_cli(runtime, f"{variable} is '{shown(env[variable])}', an engine behind ssh", 0)
        url = own.get(variable)
        context = own.get(_CONTEXT) if runtime is Runtime.DOCKER and url is None else None
    return Connection(url=url, context=context)


def _only_by_cli(runtime: Runtime, why: str, index: int) -> NoReturn:
    raise OnlyByCliError(f"{runtime}: {why}", index=index, hint="the command line itself can be run")
