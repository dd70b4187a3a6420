"""Where an engine is looked for, in the order and with the meanings of podman's and docker's programs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lemonpod.drivers.address import (
    USUAL_PLACE,
    Address,
    OnlyByCliAddressError,
    Tls,
    addresses,
    docker_addresses,
    podman_addresses,
)
from lemonpod.errors import RuntimeUnavailableError
from lemonpod.launch.container import Runtime

UID = 1000


def urls(found: tuple[Address, ...]) -> list[str]:
    return [address.url for address in found]


def podman(given: str | None = None, **environ: str) -> tuple[Address, ...]:
    return podman_addresses(given, environ, UID)


def docker(
    home: Path, host: str | None = None, context: str | None = None, **environ: str
) -> tuple[Address, ...]:
    return docker_addresses(host, context, environ, home, UID)


def add_context(home: Path, name: str, endpoint: Any, *, tls: tuple[str, ...] = ()) -> None:
    """A context in docker's own layout."""
    key = hashlib.sha256(name.encode()).hexdigest()
    meta = home / ".docker/contexts/meta" / key
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": endpoint}))
    if tls:
        material = home / ".docker/contexts/tls" / key / "docker"
        material.mkdir(parents=True)
        for file in tls:
            (material / file).write_text("x")


def use_context(home: Path, name: Any) -> None:
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker/config.json").write_text(json.dumps({"currentContext": name}))


# --- podman


def test_podman_is_looked_for_where_its_units_listen() -> None:
    assert urls(podman(XDG_RUNTIME_DIR="/run/user/7")) == [
        "unix:///run/user/7/podman/podman.sock",
        "unix:///run/podman/podman.sock",
    ]


@pytest.mark.parametrize("environ", [{}, {"XDG_RUNTIME_DIR": ""}])
def test_without_a_runtime_folder_the_one_of_the_user_is_tried(
    environ: dict[str, str], tmp_path: Path
) -> None:  # C17
    assert urls(podman(**environ))[0] == "unix:///run/user/1000/podman/podman.sock"
    assert urls(docker(tmp_path, **environ)) == [
        "unix:///run/user/1000/docker.sock",
        "unix:///var/run/docker.sock",
    ]


def test_what_somebody_named_is_the_only_place() -> None:
    environ = {"CONTAINER_HOST": "unix:///b.sock", "XDG_RUNTIME_DIR": "/run/user/7"}

    assert podman("unix:///a.sock", **environ) == (Address("unix:///a.sock", "--url"),)
    assert podman(**environ) == (Address("unix:///b.sock", "CONTAINER_HOST"),)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("unix:///a b.sock", "unix:///a b.sock"),
        ("unix:/a.sock", "unix:///a.sock"),
        ("tcp://h:1", "tcp://h:1"),
        ("tcp://[::1]:1/base", "tcp://[::1]:1/base"),
        ("http://h", "http://h"),
        ("https://h:1", "https://h:1"),
    ],
)
def test_addresses(text: str, url: str) -> None:
    assert urls(podman(text)) == [url]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http+docker://localhost", "there is no scheme 'http+docker'"),
        ("fd://3", "there is no scheme 'fd'"),
        ("/run/docker.sock", "it has no scheme (write unix:///run/docker.sock)"),
        ("nonsense", "it has no scheme (write unix:///"),
        ("unix://a.sock", "the path of its socket is not absolute"),
        ("unix://", "the path of its socket is not absolute"),
        ("tcp://", "it names no host"),
        ("tcp://h:x", "it names no host and port"),
        ("tcp://[::1", "it names no host and port"),
        ("tcp://h:99999", "it names no host and port"),
    ],
)
def test_what_is_no_address_says_who_named_it(text: str, why: str, tmp_path: Path) -> None:  # C17
    with pytest.raises(RuntimeUnavailableError) as caught:
        docker(tmp_path, DOCKER_HOST=text)
    assert str(caught.value).startswith(f"DOCKER_HOST is '{text}', which is no address of an engine: {why}")
    with pytest.raises(RuntimeUnavailableError, match=r"^CONTAINER_HOST is "):
        podman(CONTAINER_HOST=text)


@pytest.mark.parametrize("text", ["ssh://core@vm:22/run/podman/podman.sock", "npipe:////./pipe/docker"])
def test_what_only_the_program_reaches_is_told_apart(text: str, tmp_path: Path) -> None:
    with pytest.raises(OnlyByCliAddressError, match="is spoken by the program alone"):
        podman(text)
    add_context(tmp_path, "far", {"docker": {"Host": text}})
    with pytest.raises(OnlyByCliAddressError, match=r"^the docker context 'far' is "):
        docker(tmp_path, context="far")


# --- docker


def test_docker_takes_the_first_that_names_an_engine(tmp_path: Path) -> None:
    for name in ("asked", "of-env", "current"):
        add_context(tmp_path, name, {"docker": {"Host": f"unix:///{name}.sock"}})
    use_context(tmp_path, "current")
    environ = {"DOCKER_HOST": "unix:///env.sock", "DOCKER_CONTEXT": "of-env"}

    assert docker(tmp_path, "unix:///h.sock", **environ) == (Address("unix:///h.sock", "--host"),)
    assert urls(docker(tmp_path, context="asked", **environ)) == ["unix:///asked.sock"]
    assert docker(tmp_path, **environ) == (Address("unix:///env.sock", "DOCKER_HOST"),)
    assert urls(docker(tmp_path, DOCKER_CONTEXT="of-env")) == ["unix:///of-env.sock"]
    (current,) = docker(tmp_path)
    assert current == Address("unix:///current.sock", "the docker context 'current'")


@pytest.mark.parametrize("name", ["default", "", None])
def test_the_default_context_is_the_usual_place(tmp_path: Path, name: str | None) -> None:
    use_context(tmp_path, name)

    found = docker(tmp_path, XDG_RUNTIME_DIR="/x")
    assert urls(found) == ["unix:///x/docker.sock", "unix:///var/run/docker.sock"]
    assert {address.origin for address in found} == {USUAL_PLACE}
    assert docker(tmp_path, context="default", XDG_RUNTIME_DIR="/x", DOCKER_HOST="unix:///no.sock") == found


def test_docker_config_moves_the_contexts(tmp_path: Path) -> None:
    add_context(tmp_path, "here", {"docker": {"Host": "unix:///here.sock"}})
    use_context(tmp_path, "here")

    assert urls(docker(tmp_path / "elsewhere", DOCKER_CONFIG=str(tmp_path / ".docker"))) == [
        "unix:///here.sock"
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "config.json is no JSON object"),
        ("[]", "config.json is no JSON object"),
        ("[" * 100_000, "config.json is no JSON object"),
        ('{"currentContext": 7}', "currentContext is no name"),
        ('{"currentContext": "gone"}', "config.json names the docker context 'gone', and there is none"),
    ],
)
def test_a_choice_of_context_that_cannot_be_followed(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker/config.json").write_text(content)

    with pytest.raises(RuntimeUnavailableError, match=why):
        docker(tmp_path)


@pytest.mark.parametrize("endpoints", [None, {}, [], {"docker": None}, {"docker": {"Host": 1}}])
def test_a_context_without_an_engine(tmp_path: Path, endpoints: Any) -> None:
    add_context(tmp_path, "empty", endpoints)

    with pytest.raises(RuntimeUnavailableError, match="names no engine"):
        docker(tmp_path, context="empty")


def test_host_and_context_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailableError, match="exclude each other"):
        docker(tmp_path, "unix:///a", "b")


@pytest.mark.parametrize(
    ("text", "environ", "url"),
    [
        ("h:1", {}, "tcp://h:1"),
        ("tcp://h", {}, "tcp://h:2375"),
        ("tcp://[::1]", {}, "tcp://[::1]:2375"),
        ("tcp://h", {"DOCKER_TLS_VERIFY": "1"}, "tcp://h:2376"),
        ("tcp://h:", {}, "tcp://h:2375"),
    ],
)
def test_docker_knows_its_ports(tmp_path: Path, text: str, environ: dict[str, str], url: str) -> None:
    assert urls(docker(tmp_path, text, **environ)) == [url]


# --- TLS


def test_docker_speaks_tls_where_its_variables_say_so(tmp_path: Path) -> None:
    certificates = tmp_path / "certs"
    certificates.mkdir()
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (certificates / name).write_text("x")
    environ = {"DOCKER_HOST": "tcp://h:1", "DOCKER_CERT_PATH": str(certificates)}
    ca, cert, key = (certificates / name for name in ("ca.pem", "cert.pem", "key.pem"))

    assert docker(tmp_path, **environ)[0].tls is None
    assert docker(tmp_path, **environ, DOCKER_TLS_VERIFY="")[0].tls is None
    assert docker(tmp_path, **environ, DOCKER_TLS_VERIFY="0")[0].tls == Tls(ca=ca, cert=cert, key=key)
    key.unlink()
    assert docker(tmp_path, **environ, DOCKER_TLS="1")[0].tls == Tls(ca=ca, cert=cert, verify=False)
    assert docker(tmp_path, "unix:///a", DOCKER_TLS_VERIFY="1")[0].tls is None


def test_with_tls_and_no_name_docker_dials_its_own_machine(tmp_path: Path) -> None:
    assert urls(docker(tmp_path, DOCKER_TLS_VERIFY="1")) == ["tcp://localhost:2376"]


def test_a_context_brings_its_own_certificates(tmp_path: Path) -> None:
    add_context(tmp_path, "far", {"docker": {"Host": "tcp://h:1"}}, tls=("ca.pem", "cert.pem", "key.pem"))
    add_context(tmp_path, "lax", {"docker": {"Host": "tcp://h:1", "SkipTLSVerify": True}})

    tls = docker(tmp_path, context="far")[0].tls
    assert tls is not None
    assert tls.verify
    assert [path and path.name for path in (tls.ca, tls.cert, tls.key)] == ["ca.pem", "cert.pem", "key.pem"]
    assert docker(tmp_path, context="lax")[0].tls == Tls(verify=False)


def test_each_runtime_is_looked_for_its_own_way(tmp_path: Path) -> None:
    add_context(tmp_path, "c", {"docker": {"Host": "unix:///c.sock"}})

    def of(runtime: Runtime, url: str | None = None, context: str | None = None) -> list[str]:
        return urls(addresses(runtime, url, context, {"XDG_RUNTIME_DIR": "/x"}, home=tmp_path, euid=UID))

    assert of(Runtime.PODMAN, "unix:///a.sock") == of(Runtime.DOCKER, "unix:///a.sock") == ["unix:///a.sock"]
    assert of(Runtime.DOCKER, context="c") == ["unix:///c.sock"]
    assert of(Runtime.PODMAN)[0] == "unix:///x/podman/podman.sock"
