"""Whether an engine can be connected to, and what is said where it cannot. Real sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lemonpod.drivers.address import USUAL_PLACE, Address
from lemonpod.drivers.reach import Obstacle, Way, first_reachable, reach
from lemonpod.errors import RuntimeUnavailableError
from tests.users import bound_by_modes, open_folder
from tests.waiting import unused_port


def at(path: Path) -> Address:
    return Address(f"unix://{path}", "--url")


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield server


def obstacle(address: Address) -> Obstacle:
    found = reach(address)
    assert found is not None
    return found


def test_a_socket_with_a_listener_is_reached(tmp_path: Path) -> None:
    with listening(tmp_path / "s"):
        assert reach(at(tmp_path / "s")) is None


def test_a_port_with_a_listener_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert reach(Address(f"tcp://127.0.0.1:{port}", "DOCKER_HOST")) is None
        assert reach(Address(f"https://127.0.0.1:{port}", "DOCKER_HOST")) is None


def test_where_no_engine_is_either_may_be_meant(tmp_path: Path) -> None:  # C17
    own = Address(f"unix://{tmp_path}/own", USUAL_PLACE, start="systemctl --user start docker")
    systems = Address(f"unix://{tmp_path}/systems", USUAL_PLACE, start="sudo systemctl start docker")
    with pytest.raises(RuntimeUnavailableError) as caught:
        first_reachable([own, systems])
    assert caught.value.hint == "systemctl --user start docker, or sudo systemctl start docker"

    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(f"{tmp_path}/systems")
    with pytest.raises(RuntimeUnavailableError) as caught:
        first_reachable([own, systems])
    assert caught.value.hint == "sudo systemctl start docker"


@pytest.mark.parametrize("name", ["none", "none/below", "file/below"])
def test_no_socket(tmp_path: Path, name: str) -> None:  # C17
    (tmp_path / "file").touch()

    found = obstacle(at(tmp_path / name))
    assert (found.kind, found.reason) == (Way.NOTHING_THERE, "there is no such file")
    assert found.cure == "start the engine that is to listen there, or correct --url"
    usual = Address(f"unix://{tmp_path / name}", USUAL_PLACE, start="systemctl --user start x")
    assert obstacle(usual).cure == "systemctl --user start x"


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir])
def test_a_file_in_its_place(tmp_path: Path, make: object) -> None:  # C17
    path = tmp_path / "s"
    assert callable(make)
    make(path)

    found = obstacle(at(path))
    assert (found.kind, found.reason) == (Way.NO_SOCKET, "it is not a socket")
    usual = Address(f"unix://{path}", USUAL_PLACE, start="systemctl start x")
    assert obstacle(usual).cure == f"remove {path}, then systemctl start x"


def test_a_stale_socket(tmp_path: Path) -> None:  # C17
    with listening(tmp_path / "s"):
        pass

    found = obstacle(at(tmp_path / "s"))
    assert (found.kind, found.reason) == (Way.NOBODY_LISTENS, "nobody listens on it: it is stale")


def test_a_port_without_a_listener() -> None:
    found = obstacle(Address(f"tcp://127.0.0.1:{unused_port()}", "DOCKER_HOST"))
    assert (found.kind, found.reason) == (Way.NOBODY_LISTENS, "nobody listens there: it stopped")


@pytest.mark.parametrize("url", ["unix:///" + "x" * 200, "tcp://a..b:1"])
def test_what_nobody_can_connect_to(url: str) -> None:
    found = obstacle(Address(url, "DOCKER_HOST"))
    assert found.kind in {Way.NOTHING_THERE, Way.UNREACHABLE}
    assert "DOCKER_HOST" in found.cure


def test_a_path_too_long_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    monkeypatch.chdir(folder)
    with listening(Path("s")):
        found = obstacle(at(folder / "s"))
    assert found.kind is Way.UNREACHABLE
    assert "too long" in found.reason


def test_a_socket_of_another_user() -> None:  # C17
    with open_folder() as folder, listening(folder / "s"):
        (folder / "s").chmod(0o600 if os.geteuid() == 0 else 0)
        with bound_by_modes():
            found = obstacle(at(folder / "s"))
            me = os.geteuid()
    assert found.kind is Way.FORBIDDEN
    assert f"UID {me} may not connect, its mode is 0" in found.reason
    assert "sudo -u" in found.cure


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to groups; run the tests as root")
def test_a_socket_of_a_group_names_the_group() -> None:
    with open_folder() as folder, listening(folder / "s"):
        (folder / "s").chmod(0o660)
        os.chown(folder / "s", 0, 4242)
        with bound_by_modes():
            found = obstacle(at(folder / "s"))
    assert found.kind is Way.FORBIDDEN
    assert "its owner root:4242" in found.reason
    assert found.cure == "sudo usermod -aG 4242 nobody, then log in again"


def test_a_folder_that_shuts_the_user_out() -> None:
    with open_folder() as folder:
        (folder / "shut").mkdir(mode=0o700)
        (folder / "shut/in").mkdir()
        with listening(folder / "shut/in/s"):
            (folder / "shut").chmod(0o700 if os.geteuid() == 0 else 0)
            with bound_by_modes():
                found = obstacle(at(folder / "shut/in/s"))
            (folder / "shut").chmod(0o700)
    assert found.kind is Way.FORBIDDEN
    assert found.reason.endswith(f"may not enter {folder / 'shut'}")


def test_the_first_that_answers_is_taken(tmp_path: Path) -> None:
    with listening(tmp_path / "b"):
        assert first_reachable((at(tmp_path / "a"), at(tmp_path / "b"))) == at(tmp_path / "b")


def test_where_none_answers_every_place_is_named(tmp_path: Path) -> None:
    with listening(tmp_path / "stale"):
        pass
    stale = Address(f"unix://{tmp_path}/stale", USUAL_PLACE, start="start the stale one")

    with pytest.raises(RuntimeUnavailableError) as caught:
        first_reachable((at(tmp_path / "a"), stale))
    assert caught.value.message == (
        f"no container engine answers: unix://{tmp_path}/a (--url): there is no such file; "
        f"unix://{tmp_path}/stale (its usual place): nobody listens on it: it is stale"
    )
    # The one that is there is the one to mend.
    assert caught.value.hint == "start the stale one"
