from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from lemonpod.broker.ports import PortBroker, PortLease, is_free
from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import NoPortError
from tests.waiting import unused_ports

Take = Callable[[PortBroker], PortLease]


@pytest.fixture
def first() -> int:
    return unused_ports(4)


@pytest.fixture
def take() -> Iterator[Take]:
    """Lease a port until the end of the test."""
    with ExitStack() as stack:
        yield lambda broker: stack.enter_context(broker.lease())


@pytest.fixture
def listener(first: int) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", first)) as server:
        yield server


def test_a_range_of_three_serves_three_and_names_itself_when_it_is_spent(
    first: int, take: Take
) -> None:  # L07
    broker = PortBroker(first, first + 2)
    leases = [take(broker) for _ in range(3)]
    assert [lease.port for lease in leases] == [first, first + 1, first + 2]
    with pytest.raises(NoPortError, match=f"from {first} to {first + 2}: 3 leased to engines, 0 taken"):
        broker.lease()
    leases[1].release()
    assert take(broker).port == first + 1


def test_every_path_gives_the_port_back(first: int) -> None:  # L07
    broker = PortBroker(first, first)
    for _ in range(200):
        with suppress(RuntimeError), broker.lease() as lease:
            lease.hand_over()
            raise RuntimeError
    assert broker.leased == frozenset()


def test_a_freed_port_rests_while_others_are_free(first: int, take: Take) -> None:
    broker = PortBroker(first, first + 2)
    take(broker).release()
    assert take(broker).port == first + 1


def test_releasing_twice_does_not_free_the_next_owner(first: int, take: Take) -> None:
    broker = PortBroker(first, first)
    old = take(broker)
    old.release()
    new = take(broker)
    old.release()
    assert broker.leased == {new.port}


def test_a_port_that_somebody_listens_on_is_passed_over(
    first: int, listener: socket.socket, take: Take
) -> None:  # L05
    assert take(PortBroker(first, first + 1)).port == first + 1


def test_a_listener_on_the_wildcard_counts_too(first: int, take: Take) -> None:  # L05
    with socket.create_server(("0.0.0.0", first)):
        assert take(PortBroker(first, first + 1)).port == first + 1


def test_a_port_that_a_connection_goes_out_from_is_passed_over(first: int, take: Take) -> None:  # L07
    with socket.create_server(("127.0.0.1", first + 1)), socket.socket() as outgoing:
        outgoing.bind(("127.0.0.1", first))
        outgoing.connect(("127.0.0.1", first + 1))
        assert take(PortBroker(first, first + 2)).port == first + 2


def test_the_usual_range_is_below_that_of_outgoing_connections() -> None:  # L07
    lowest_ephemeral = 32768  # of Linux, unless net.ipv4.ip_local_port_range says something else
    assert EngineSettings().last_port < lowest_ephemeral


@pytest.fixture
def lingering(first: int, listener: socket.socket) -> None:
    """Nobody listens there any more, and a connection that was closed there is in TIME_WAIT."""
    with socket.create_connection(("127.0.0.1", first)):
        accepted, _ = listener.accept()
        accepted.close()
    listener.close()


@pytest.mark.usefixtures("lingering")
def test_a_closed_connection_in_time_wait_does_not_block(first: int, take: Take) -> None:
    assert take(PortBroker(first, first)).port == first


@pytest.mark.usefixtures("lingering")
def test_a_port_at_rest_is_taken_first(first: int, take: Take) -> None:
    """As whisper.cpp's server binds, which could not have the other one."""
    lease = take(PortBroker(first, first + 1))
    lease.hand_over()
    with socket.socket() as engine:
        engine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        engine.bind(("127.0.0.1", lease.port))


def test_a_held_port_is_closed_to_others_until_it_is_handed_over(first: int, take: Take) -> None:
    lease = take(PortBroker(first, first))
    assert not is_free("127.0.0.1", first)
    with pytest.raises(NoPortError, match="0 leased to engines, 1 taken"):
        PortBroker(first, first).lease()  # another server with the same range
    lease.hand_over()
    assert is_free("127.0.0.1", first)


def test_a_handed_over_port_stays_closed_to_other_servers(first: int, take: Take) -> None:
    """Between the hand-over and the engine's bind it would look free to them."""
    lease = take(PortBroker(first, first + 1))
    lease.hand_over()
    assert take(PortBroker(first, first + 1)).port == first + 1
    lease.release()
    assert take(PortBroker(first, first)).port == first


def test_twenty_leases_at_once_are_twenty_ports(take: Take) -> None:  # L07
    first = unused_ports(20)
    broker = PortBroker(first, first + 19)
    assert len({take(broker).port for _ in range(20)}) == 20


@pytest.mark.parametrize(("low", "high"), [(0, 10), (10, 9), (65_000, 65_536)])
def test_a_senseless_range_is_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match=f"{low}-{high} is no range"):
        PortBroker(low, high)
