"""Every call of the ContainerRuntime seam, on real engines."""

# Long because the seam has many calls, and each is made on every engine.

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from lemonpod.drivers.runtime import ContainerInfo, ContainerRuntime, Halt, Halted
from lemonpod.errors import EngineError, ImageNotFoundError, NameConflictError, SpawnError
from lemonpod.launch.argv.flags import StopVerb
from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.container import Device, Mount, Platform, PortMapping, PullPolicy, Ulimit, Volume
from tests.engines.runtimes import LABEL, TEST_PREFIX, Background, log_of, runtime_of, started, tiny
from tests.lab.engine import ContainerEngine
from tests.lab.images import TINY
from tests.lab.registry import Registry
from tests.lab.waiting import wait_until
from tests.users import open_folder
from tests.waiting import alive, unused_port


@pytest.fixture
def runtime(engine: ContainerEngine) -> Iterator[ContainerRuntime]:
    runtime = runtime_of(engine)
    yield runtime
    runtime.close()


def info_of(runtime: ContainerRuntime, container: str) -> ContainerInfo:
    info = runtime.inspect(container)
    assert info is not None
    return info


def ended(runtime: ContainerRuntime, container: str) -> ContainerInfo:
    runtime.wait(container, Halt())
    return info_of(runtime, container)


def test_what_it_says_of_itself(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    info = runtime.info()
    assert (info.runtime, info.version, info.rootless) == (engine.runtime, engine.version, engine.rootless)
    assert info.api_version
    assert info.local


def test_the_life_of_a_container(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    spec = tiny(engine, "life", "sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done")
    container = runtime.create(replace(spec, labels={"own": "1"}), {"more": "2"})
    created = info_of(runtime, container)
    assert (created.name, created.running, created.exit_code) == (f"{TEST_PREFIX}life", False, None)
    assert {"own": "1", "more": "2"}.items() <= created.labels.items()
    assert created.pid is None
    assert created.started_at is None

    runtime.start(container)
    runtime.start(container)  # one that runs is no error
    running = info_of(runtime, f"{TEST_PREFIX}life")
    assert running.id == container
    assert running.running
    assert running.pid is not None
    assert alive(running.pid)
    assert running.started_at is not None
    assert running.host_network
    assert running.exit_code is running.finished_at is None

    said: list[bytes] = []
    logs = Background(lambda halt: runtime.logs(container, said.append, halt))
    wait_until(lambda: said, "the first line")
    runtime.stop(container, 20)
    assert logs.end() is None
    assert b"".join(said) == b"up\n"
    stopped = ended(runtime, container)
    assert (stopped.running, stopped.exit_code, stopped.pid, stopped.error) == (False, 7, None, "")
    assert stopped.finished_at is not None
    assert stopped.finished_at >= running.started_at

    runtime.stop(container, 1)
    runtime.kill(container, "TERM")
    runtime.remove(container)
    assert runtime.inspect(container) is None


def test_what_is_gone_is_no_error(runtime: ContainerRuntime) -> None:
    container = f"{TEST_PREFIX}gone"
    assert runtime.inspect(container) is None
    runtime.remove(container)
    runtime.stop(container, 1)
    runtime.kill(container, "KILL")
    runtime.wait(container, Halt())
    assert log_of(runtime, container) == b""
    assert runtime.usage(container).processes is None


def test_ids_and_names_are_compared_whole(engine: ContainerEngine, runtime: ContainerRuntime) -> None:  # C03
    longer = started(runtime, tiny(engine, "n-80010"))
    assert runtime.inspect(f"{TEST_PREFIX}n-8001") is None
    assert runtime.inspect(longer[:12]) is None
    shorter = started(runtime, tiny(engine, "n-8001"))
    assert info_of(runtime, f"{TEST_PREFIX}n-8001").id == shorter
    runtime.remove(f"{TEST_PREFIX}n-8001")
    assert info_of(runtime, f"{TEST_PREFIX}n-80010").running


def test_containers_are_found_by_all_their_labels(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    both = runtime.create(tiny(engine, "both"), {"a": "1", "b": "x=y, z"})
    runtime.create(tiny(engine, "one"), {"a": "1"})
    runtime.create(tiny(engine, "other"), {"a": "1", "b": "x"})
    assert [one.id for one in runtime.containers({"a": "1", "b": "x=y, z"})] == [both]
    assert len(runtime.containers({"a": "1"})) == 3
    runtime.start(both)
    (listed,) = runtime.containers({"b": "x=y, z"})
    assert (listed.name, listed.running, listed.labels["a"]) == (f"{TEST_PREFIX}both", True, "1")


def test_both_streams_are_one_log(engine: ContainerEngine, runtime: ContainerRuntime) -> None:  # C23
    script = "printf half; echo ' line'; echo error >&2; printf end"
    container = started(runtime, tiny(engine, "streams", "sh", "-c", script))
    runtime.wait(container, Halt())
    log = log_of(runtime, container)
    assert sorted(log.splitlines()) == [b"end", b"error", b"half line"]
    assert b"\0" not in log


def test_the_log_of_a_terminal(engine: ContainerEngine, runtime: ContainerRuntime) -> None:  # C23
    container = started(runtime, tiny(engine, "terminal", "sh", "-c", "echo one; echo two >&2", tty=True))
    runtime.wait(container, Halt())
    assert log_of(runtime, container).split() == [b"one", b"two"]


def test_a_log_driver_that_keeps_none(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    container = started(runtime, tiny(engine, "unlogged", "echo", "lost", log_driver="none"))
    assert b"keeps no log" in log_of(runtime, container)


def test_a_large_log_comes_whole(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    container = started(runtime, tiny(engine, "large", "seq", "1", "200000"))
    log = log_of(runtime, container)
    whole = b"".join(b"%d\n" % number for number in range(1, 200001))
    assert log == whole or (engine.runtime == "podman" and b"left out" in log)
    assert log.endswith(whole[-400:])


@pytest.mark.parametrize("call", ["wait", "logs"])
def test_a_halt_ends_a_call_on_a_silent_container(
    engine: ContainerEngine, runtime: ContainerRuntime, call: str
) -> None:
    container = started(runtime, tiny(engine, "silent"))
    calls = {
        "wait": lambda halt: runtime.wait(container, halt),
        "logs": lambda halt: runtime.logs(container, lambda _: None, halt),
    }
    background = Background(calls[call])
    assert info_of(runtime, container).running  # by now the call is on its way; any moment has to do
    background.halt.call()
    assert isinstance(background.end(), Halted)
    with pytest.raises(Halted):
        calls[call](background.halt)


def test_calls_of_many_threads(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    container = started(runtime, tiny(engine, "threads"))
    found: list[bool] = []

    def look() -> None:
        for _ in range(5):
            found.append(info_of(runtime, container).running)

    threads = [threading.Thread(target=look) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 60


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 125", 125), ("sh -c 'kill -9 $$'; exit $?", 137)]
)
def test_exit_codes(engine: ContainerEngine, runtime: ContainerRuntime, script: str, code: int) -> None:
    container = started(runtime, tiny(engine, "exits", "sh", "-c", script))
    info = ended(runtime, container)
    assert (info.exit_code, info.oom_killed) == (code, False)


def test_a_signal(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    script = "trap 'echo heard; exit 9' USR1; echo ready; while :; do sleep 0.05; done"
    container = started(runtime, tiny(engine, "signal", "sh", "-c", script))
    said: list[bytes] = []
    Background(lambda halt: runtime.logs(container, said.append, halt))
    wait_until(lambda: b"ready" in b"".join(said), "the trap")
    runtime.kill(container, "USR1")
    assert ended(runtime, container).exit_code == 9
    with pytest.raises(EngineError, match=r"(?i)invalid signal"):
        runtime.kill(started(runtime, tiny(engine, "deaf")), "NOPE")


def test_a_container_that_ignores_its_stop_signal(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    spec = tiny(engine, "stubborn", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    container = started(runtime, spec)
    runtime.stop(container, 1)
    assert ended(runtime, container).exit_code == 137
    again = started(runtime, replace(spec, name=f"{spec.name}-2"))
    runtime.remove(again)  # without the grace of its stop signal
    assert runtime.inspect(again) is None


def test_killed_for_memory(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    if engine.rootless:
        pytest.skip("rootless podman has no limit of memory in cgroups v1")
    limits = {"memory": 16 << 20, "memory_swap": 16 << 20}
    container = started(runtime, tiny(engine, "oom", "tail", "/dev/zero", **limits))
    info = ended(runtime, container)
    assert info.exit_code == 137
    assert info.oom_killed or engine.name == "podman4"  # which does not see it in cgroups v1


def test_what_it_uses(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    container = started(runtime, tiny(engine, "busy", "sh", "-c", "i=0; while :; do i=$((i+1)); done"))
    if engine.rootless:
        assert runtime.usage(container).memory_bytes is None  # in cgroups v1 it may not look
        return
    wait_until(lambda: (runtime.usage(container).cpu_seconds or 0) > 0.05, "some work")
    usage = runtime.usage(container)
    assert usage.processes == 1
    assert usage.memory_bytes is not None
    assert 0 < usage.memory_bytes < 100 << 20


def test_a_published_port(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    port = unused_port()
    mapping = PortMapping(host_ip="127.0.0.1", host_port=port, container_port=80, protocol="tcp")
    where = {"network_mode": None, "ports": (mapping,)}
    container = started(runtime, tiny(engine, "published", **where))
    info = info_of(runtime, container)
    assert not info.host_network
    assert [(one.host_ip, one.host_port) for one in info.published] == [("127.0.0.1", port)]
    second = runtime.create(tiny(engine, "second", **where), LABEL)
    with pytest.raises(SpawnError) as raised:
        runtime.start(second)
    assert "port" in (raised.value.hint or "")


def test_a_name_that_is_taken(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    first = runtime.create(tiny(engine, "taken"), LABEL)
    with pytest.raises(NameConflictError, match=first):
        runtime.create(tiny(engine, "taken"), LABEL)


def test_an_image_that_is_not_there(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    assert runtime.image("localhost/no/such:1") is None
    with pytest.raises(ImageNotFoundError, match="localhost/no/such:1"):
        runtime.create(tiny(engine, "imageless", image="localhost/no/such:1"), LABEL)


def test_an_image_is_for_a_platform(runtime: ContainerRuntime) -> None:
    image = runtime.image(TINY)
    assert image is not None
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    assert image.platform == Platform(os="linux", arch=machine, variant=image.platform.variant)
    assert runtime.image(TINY, image.platform) == image
    assert runtime.image(TINY, Platform(os="linux", arch="s390x")) is None


def test_a_kill_by_somebody_else_is_seen(engine: ContainerEngine, runtime: ContainerRuntime) -> None:  # C15
    container = started(runtime, tiny(engine, "killed"))
    assert info_of(runtime, container).running
    engine.run_cli("kill", container)
    wait_until(lambda: not info_of(runtime, container).running, "what somebody else did")
    assert info_of(runtime, container).exit_code == 137


def test_folders_of_odd_names_are_mounted(engine: ContainerEngine, runtime: ContainerRuntime) -> None:  # C13
    with open_folder() as folder:
        for name in ("my models", "a:b,c", "real"):
            (folder / name).mkdir()
            (folder / name / "m").write_text(f"in {name}\n")
        (folder / "link").symlink_to("real")
        where = {
            "volumes": (
                Volume(source=f"{folder}/my models/", target="/v/", options=("ro",)),
                Volume(source=f"{folder}/link", target="/l"),
            ),
            "mounts": (Mount(kind="bind", source=f"{folder}/a:b,c", target="/c"),),
        }
        container = started(runtime, tiny(engine, "odd", "cat", "/v/m", "/l/m", "/c/m", **where))
        ended(runtime, container)
        assert log_of(runtime, container) == b"in my models\nin real\nin a:b,c\n"


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"devices": (Device("/dev/no-such"),)}, "no /dev/no-such"),  # C11
        ({"devices": (Device("/dev/dri/renderD255"),)}, "render"),  # C11
        ({"devices": (Device("no.such/gpu=all"),)}, "CDI"),
        ({"mounts": (Mount(kind="bind", source="/no/such", target="/x"),)}, "make /no/such"),  # C13
        ({"command": ("no-such-program",)}, "no-such-program"),
        ({"command": ("/tmp",)}, "no program"),
        ({"ulimits": (Ulimit("nofile", 2**30, 2**30),)}, "--ulimit"),
    ],
    ids=["device", "render-node", "cdi", "mount", "program", "folder", "ulimit"],
)
def test_why_it_does_not_start(
    engine: ContainerEngine, runtime: ContainerRuntime, wrong: dict[str, object], hint: str
) -> None:
    spec = tiny(engine, "wrong", **wrong)
    with pytest.raises(SpawnError) as raised:
        runtime.start(runtime.create(spec, LABEL))
    assert hint in (raised.value.hint or ""), str(raised.value)
    runtime.remove(spec.name or "")


def test_stop_commands_are_carried_out(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    def stop(verb: StopVerb, *names: str, **parts: object) -> None:
        containers = tuple(f"{TEST_PREFIX}{name}" for name in names)
        runtime.carry_out(ContainerStop(verb=verb, containers=containers, **parts))  # type: ignore[arg-type]

    first, second = (started(runtime, tiny(engine, name)) for name in ("first", "second"))
    stop(StopVerb.STOP, "first", timeout=0)
    assert not info_of(runtime, first).running
    with pytest.raises(EngineError, match="missing"):
        stop(StopVerb.KILL, "missing", "second", signal="KILL")
    assert not ended(runtime, second).running  # its turn came all the same
    stop(StopVerb.REMOVE, "first", volumes=True)
    assert runtime.inspect(first) is None

    third = started(runtime, tiny(engine, "third"))
    with pytest.raises(EngineError, match="third"):
        stop(StopVerb.REMOVE, "third")
    assert info_of(runtime, third).running
    stop(StopVerb.REMOVE, "third", "missing", force=True, timeout=0 if engine.runtime == "podman" else None)
    assert runtime.inspect(third) is None
    with pytest.raises(EngineError, match="missing"):
        stop(StopVerb.STOP, "missing")
    stop(StopVerb.STOP, "missing", ignore=True)


def test_anonymous_volumes_go_with_the_container(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    before = engine.run_cli("volume", "ls", "-q")
    container = started(runtime, tiny(engine, "volume", volumes=(Volume(source=None, target="/data"),)))
    assert engine.run_cli("volume", "ls", "-q") != before
    runtime.remove(container)
    assert engine.run_cli("volume", "ls", "-q") == before


def open_sockets() -> int:
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sum(link.startswith("socket:") for link in links)


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_no_call_leaves_a_socket_open(
    engine: ContainerEngine, runtime: ContainerRuntime, registry: Registry, no_garbage_collection: None
) -> None:
    """However it ends; one that waits for the next call is kept, whatever was asked."""
    alive = [started(runtime, tiny(engine, f"sockets-{number}")) for number in range(3)]
    ended = started(runtime, tiny(engine, "sockets", "echo", "bye"))

    def ask_everything() -> None:
        for container in alive:
            runtime.inspect(container)
            runtime.logs(container, lambda _: None, Halt(), follow=False)
        runtime.usage(alive[0])  # docker 20 takes a second
        following = Background(lambda halt: runtime.logs(alive[0], lambda _: None, halt))
        waiting = Background(lambda halt: runtime.wait(alive[0], halt))
        for call in (following, waiting):
            call.halt.call()
            assert isinstance(call.end(), Halted)
        runtime.wait(ended, Halt())
        log_of(runtime, ended)
        with pytest.raises(EngineError):
            runtime.pull(
                f"{registry.address}/none:1",
                policy=PullPolicy.ALWAYS,
                platform=None,
                received=lambda done, total: None,
                halt=Halt(),
            )

    before = open_sockets()
    ask_everything()
    kept = open_sockets()
    for _ in range(3):
        ask_everything()
    assert open_sockets() <= kept <= before + 2
