from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lemonpod.errors import ArgvError, OnlyByCliError
from lemonpod.launch.argv.connection import Connection
from lemonpod.launch.argv.flags import StopVerb
from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.container import Runtime, Variable
from lemonpod.launch.plan import ContainerLaunch, LaunchPlan, ProcessSpec, StopCommand, describe
from lemonpod.launch.request import ContainerPolicy
from lemonpod.launch.resolve import resolve
from lemonpod.launch.started import ContainerDriving, known_only_by_cli
from tests.unit.launch.requests import block_manifest, make_request


def plan_of(*argv: str, driver: ContainerDriving = ContainerDriving.AUTO, **more: Any) -> LaunchPlan:
    env = more.pop("environ", {})
    settings = {"containers": ContainerPolicy(container_driver=driver)}
    request = make_request(block_manifest(*argv[1:], command=argv[0], **more), settings=settings)
    return resolve(replace(request, env=env, folder="/srv"))


@pytest.mark.parametrize("program", ["podman", "docker", "/usr/bin/podman", "/opt/docker"])
def test_a_container_is_asked_for_over_the_api(program: str) -> None:
    plan = plan_of(program, "run", "--rm", "-v", "./x:/x", "--name", "{recipe}-{port}", "image", "--serve")
    assert isinstance(plan.spec, ContainerLaunch)
    assert plan.spec.program == program
    assert plan.spec.container.name == "test-engine-8001"
    assert plan.spec.container.volumes[0].source == "/srv/x"
    assert plan.spec.container.command == ("--serve",)
    assert (plan.by_cli, plan.peer_checked) == (None, True)
    assert describe(plan)["driver"] == "container"
    json.dumps(describe(plan))


@pytest.mark.parametrize("program", ["podman", "docker"])
@pytest.mark.parametrize("publish", ["{port}:8080", "127.0.0.1:{port}:8080/tcp"])
def test_the_leased_port_can_be_published(program: str, publish: str) -> None:
    plan = plan_of(program, "run", "-p", publish, "image")
    assert isinstance(plan.spec, ContainerLaunch)
    assert [(port.host_port, port.container_port) for port in plan.spec.container.ports] == [(8001, 8080)]


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("podman",), "it is no 'run' or 'create'"),
        (("docker", "compose", "up"), "it is no 'run' or 'create'"),
        (("podman", "--root", "/x", "run", "image"), "'--root' cannot be said over the API"),
        (("podman", "run", "--authfile", "/x", "image"), "'--authfile' cannot be said over the API"),
        (("podman", "--connection", "far", "run", "image"), "'--connection' is about how the program itself"),
        (("docker", "-H", "ssh://far", "run", "image"), "'--host' names an engine behind ssh"),
        (("sudo", "-n", "docker", "run", "image"), "'sudo' has no API of docker"),
        (("env", "A=1", "podman", "run", "image"), "'env' has no API of podman"),
        (("nerdctl", "run", "image"), "'nerdctl' has no API of docker"),
    ],
)
def test_what_only_the_program_can_do_is_run_and_the_reason_is_kept(argv: tuple[str, ...], why: str) -> None:
    plan = plan_of(*argv)
    assert isinstance(plan.spec, ProcessSpec)
    assert plan.spec.argv == argv
    assert why in (plan.by_cli or "")
    assert not plan.peer_checked
    assert describe(plan)["by_cli"] == plan.by_cli
    assert known_only_by_cli(argv, ContainerDriving.AUTO) == plan.by_cli


@pytest.mark.parametrize(
    ("line", "stop"),
    [
        ("podman --root /x run --rm --name a-{port} i", "podman --root=/x stop -t 5 a-8001"),
        ("sudo -n docker run --name={recipe} i --name b", "sudo -n docker rm --force test-engine"),
        ("podman --root /x run --name a i", "podman --root=/x rm --force -t 5 a"),
        ("docker run --rm --name a --cidfile /x --stop-timeout 9 i", "docker stop a"),
        ("podman run --rm --cidfile /x i", None),
        ("podman run --rm --name a i", None),
        ("engine --name a", None),
    ],
)
def test_what_outlives_its_program_is_stopped_by_its_name(line: str, stop: str | None) -> None:  # C01
    plan = plan_of(*line.split())
    assert describe(plan)["stop"] == (stop and stop.split())


def test_a_stop_command_of_the_manifests_own_comes_first() -> None:
    argv = ("podman", "--root", "/x", "run", "--name", "a", "i")
    plan = plan_of(*argv, stop_command="/bin/true")
    assert describe(plan)["stop"] == ["/bin/true"]


@pytest.mark.parametrize("argv", [("podman-wrapper",), ("/opt/podman/engine",), ("env", "engine", "podman")])
def test_other_commands_are_processes(argv: tuple[str, ...]) -> None:
    plan = plan_of(*argv)
    assert isinstance(plan.spec, ProcessSpec)
    assert (plan.by_cli, plan.peer_checked) == (None, True)


def test_an_operator_may_insist_on_the_api() -> None:
    with pytest.raises(OnlyByCliError, match=r"recipe 'test-engine'.*'--authfile'") as caught:
        plan_of("podman", "run", "--authfile", "/x", "image", driver=ContainerDriving.SDK)
    assert "'container_driver' at 'auto'" in (caught.value.hint or "")


def test_an_operator_may_insist_on_the_command_line() -> None:
    plan = plan_of("podman", "run", "image", driver=ContainerDriving.CLI)
    assert isinstance(plan.spec, ProcessSpec)
    assert plan.by_cli == "'container_driver' is 'cli'"
    assert plan_of("engine", driver=ContainerDriving.CLI).by_cli is None


def test_what_the_program_would_refuse_is_refused_with_its_place() -> None:
    with pytest.raises(ArgvError, match=r"unknown flag '--no-such-flag', at argv\[2\]") as caught:
        plan_of("podman", "run", "--no-such-flag", "image")
    assert caught.value.index == 2
    assert "'container_driver' at 'cli'" in (caught.value.hint or "")
    assert plan_of("podman", "run", "--no-such-flag", "image", driver=ContainerDriving.CLI).by_cli


def test_a_variable_named_alone_has_the_value_that_the_program_would_see() -> None:
    environ = {"LANG": "C", "HF_TOKEN": "secret", "OTHER": "x"}
    argv = ("podman", "run", "-e", "LANG", "-e", "HF_TOKEN", "-e", "A", "image")
    plan = plan_of(*argv, environ=environ, env={"A": "of the manifest"})
    assert isinstance(plan.spec, ContainerLaunch)
    assert plan.spec.container.env == (Variable("LANG", "C"), Variable("A", "of the manifest"))


def test_which_engine_is_asked() -> None:
    def asked(*argv: str, **environ: str) -> Connection:
        spec = plan_of(*argv, environ=environ).spec
        assert isinstance(spec, ContainerLaunch)
        return spec.connection

    assert asked("podman", "run", "i", CONTAINER_HOST="unix:///x") == Connection()
    assert asked("podman", "--url", "unix:///x", "run", "i") == Connection(url="unix:///x")
    assert asked("docker", "-H", "tcp://h:1", "run", "i") == Connection(url="tcp://h:1")
    assert asked("docker", "-c", "far", "run", "i") == Connection(context="far")
    assert "behind ssh" in (plan_of("podman", "run", "i", environ={"CONTAINER_HOST": "ssh://x"}).by_cli or "")


def test_a_manifest_may_say_which_engine_is_asked() -> None:
    def spec(*argv: str, **env: str) -> ProcessSpec | ContainerLaunch:
        return plan_of(*argv, env=env, stop_command=argv[0], stop_command_args=["stop", "n"]).spec

    asked = spec("podman", "run", "i", CONTAINER_HOST="unix:///x")
    assert isinstance(asked, ContainerLaunch)
    assert asked.connection == Connection(url="unix:///x")
    asked = spec("docker", "run", "i", DOCKER_CONTEXT="far")
    assert isinstance(asked, ContainerLaunch)
    assert asked.connection == Connection(context="far")
    assert isinstance(spec("podman", "run", "i", CONTAINERS_CONF="/x"), ProcessSpec)
    plan = plan_of("docker", "run", "i", env={"DOCKER_CONFIG": "/x"})
    assert "sets DOCKER_CONFIG, which configures the program itself" in (plan.by_cli or "")


@pytest.mark.parametrize(
    ("argv", "stop"),
    [
        ("podman rm -f -t 0 n", ContainerStop(verb=StopVerb.REMOVE, containers=("n",), force=True, timeout=0)),  # noqa: E501
        ("podman stop -t=0 n", ContainerStop(verb=StopVerb.STOP, containers=("n",), timeout=0)),
        ("podman stop n -t 3", ContainerStop(verb=StopVerb.STOP, containers=("n",), timeout=3)),
        ("podman container stop --time 3 n", ContainerStop(verb=StopVerb.STOP, containers=("n",), timeout=3)),
        ("podman kill -s INT n m", ContainerStop(verb=StopVerb.KILL, containers=("n", "m"), signal="INT")),
        ("/usr/bin/podman rm -v -f -i n", ContainerStop(verb=StopVerb.REMOVE, containers=("n",), force=True, volumes=True, ignore=True)),  # noqa: E501
        ("podman rm -- -n", ContainerStop(verb=StopVerb.REMOVE, containers=("-n",))),
        ("podman stop -t=0 --ignore True n", ContainerStop(verb=StopVerb.STOP, containers=("True", "n"), timeout=0, ignore=True)),  # noqa: E501
    ],
)  # fmt: skip
def test_a_stop_command_is_said_to_the_same_api(argv: str, stop: ContainerStop) -> None:
    command, *args = argv.split()
    plan = plan_of("podman", "run", "image", stop_command=command, stop_command_args=args)
    assert plan.stop == stop
    json.dumps(describe(plan))


@pytest.mark.parametrize(
    "argv",
    [
        "podman stop --all",
        "podman rm --depend n",
        "podman rm -f --cidfile=/x",
        "podman --remote stop -t 5 n",
        "podman stop --no-such n",
        "podman stop",
        "podman exec n kill 1",
        "podman stop -t soon n",
        "podman rm {pid}",
        "docker stop n",
        "kill {pid}",
        "podman",
    ],
)
def test_any_other_stop_command_is_a_command(argv: str) -> None:
    command, *args = argv.split()
    plan = plan_of("podman", "run", "image", stop_command=command, stop_command_args=args)
    assert isinstance(plan.stop, StopCommand)
    assert " ".join(map(str, plan.stop.argv)) == argv


def test_a_container_by_its_command_line_is_stopped_by_one() -> None:
    plan = plan_of("sudo", "podman", "run", "i", stop_command="podman", stop_command_args=["stop", "n"])
    assert isinstance(plan.stop, StopCommand)


def test_docker_is_asked_by_its_own_flags() -> None:
    plan = plan_of("docker", "run", "i", stop_command="docker", stop_command_args=["stop", "-s", "INT", "n"])
    assert plan.stop == ContainerStop(verb=StopVerb.STOP, containers=("n",), signal="INT")
    assert isinstance(plan.spec, ContainerLaunch)
    assert plan.spec.container.runtime is Runtime.DOCKER


def test_who_asked_for_what_is_no_part_of_a_plans_identity() -> None:
    request = make_request(block_manifest("{ctx_size}"), options={"ctx_size": 4096})
    assert resolve(request).digest == resolve(replace(request, overrides={"ctx_size": 4096})).digest
