"""What single flags of docker become; the bodies are those that its program sent to a recording socket."""

from __future__ import annotations

from typing import Any

import pytest

from lemonpod.drivers.docker_body import docker_create
from lemonpod.errors import ArgvError, OnlyByCliError
from tests.unit.launch.argv.corpus import spec_of

GPU = {"Driver": "", "Count": 0, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}
CDI = {"Driver": "cdi", "Count": 0, "Capabilities": None, "Options": None}
SECOND = 10**9


def create(*options: str) -> tuple[dict[str, str], dict[str, Any]]:
    return docker_create(spec_of("docker", "run", *options, "img", "cmd"))


@pytest.mark.parametrize(
    ("options", "key", "said"),
    [
        (["-e", "K=V", "-e", "K=a=b"], "Env", ["K=a=b"]),
        (["-eHF_TOKEN", "-e", "UNSET", "-e=E="], "Env", ["HF_TOKEN=hf_dummy", "UNSET", "E="]),
        (["-e", "H*"], "Env", ["H*"]),
        (["--env-file", ".env", "-e", "A=2"], "Env", ["A=1", "HF_TOKEN=hf_dummy", "A=2"]),
        (["-l", "a=0", "--label-file", "labels", "-l", "c"], "Labels", {"a": "0", "b": "", "c": ""}),
        (["--entrypoint", "sh -c"], "Entrypoint", ["sh -c"]),
        (["--entrypoint="], "Entrypoint", [""]),
        (["-v", "/only"], "Volumes", {"/only": {}}),
        (["--stop-signal", "SIGINT"], "StopSignal", "SIGINT"),
        (["--stop-timeout", "0"], "StopTimeout", 0),
        (["--expose", "80-81/udp"], "ExposedPorts", {"80/udp": {}, "81/udp": {}}),
        (["--no-healthcheck"], "Healthcheck", {"Test": ["NONE"]}),
        (
            ["--health-cmd", "curl x", "--health-interval=1m30s", "--health-retries", "3"],
            "Healthcheck",
            {"Test": ["CMD-SHELL", "curl x"], "Interval": 90 * SECOND, "Retries": 3},
        ),
        (["-d"], "AttachStdout", False),
        (["-i"], "StdinOnce", True),
        (["-a", "STDERR"], "AttachStdout", False),
        (
            ["--network", "lan", "--ip", "10.0.0.2", "--network-alias", "a"],
            "NetworkingConfig",
            {"EndpointsConfig": {"lan": {"Aliases": ["a"], "IPAMConfig": {"IPv4Address": "10.0.0.2"}}}},
        ),
    ],
)
def test_the_config(options: list[str], key: str, said: object) -> None:
    assert create(*options)[1][key] == said


@pytest.mark.parametrize(
    ("options", "key", "said"),
    [
        (["--gpus", "all"], "DeviceRequests", [{**GPU, "Count": -1}]),
        (["--gpus=2"], "DeviceRequests", [{**GPU, "Count": 2}]),
        (["--gpus", "0"], "DeviceRequests", [GPU]),
        (["--gpus", '"device=0,1"'], "DeviceRequests", [{**GPU, "DeviceIDs": ["0", "1"]}]),
        (
            ["--gpus", "all,capabilities=utility"],
            "DeviceRequests",
            [{**GPU, "Count": -1, "Capabilities": [["utility", "gpu"]]}],
        ),
        (
            ["--gpus", '"capabilities=compute,utility"'],
            "DeviceRequests",
            [{**GPU, "Count": 1, "Capabilities": [["compute", "utility", "gpu"]]}],
        ),
        (["--gpus", "driver=nvidia,count=all"], "DeviceRequests", [{**GPU, "Driver": "nvidia", "Count": -1}]),
        (
            ["--device", "nvidia.com/gpu=0", "--device", "amd.com/gpu=all"],
            "DeviceRequests",
            [{**CDI, "DeviceIDs": ["nvidia.com/gpu=0", "amd.com/gpu=all"]}],
        ),
        (
            ["--device", "/dev/a:/dev/b:r", "--device", "/dev/c:rw"],
            "Devices",
            [
                {"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "r"},
                {"PathOnHost": "/dev/c", "PathInContainer": "/dev/c", "CgroupPermissions": "rw"},
            ],
        ),
        (["--group-add", "video,render"], "GroupAdd", ["video,render"]),
        (["--userns=host"], "UsernsMode", "host"),
        (["--security-opt", "label:disable"], "SecurityOpt", ["label=disable"]),
        (
            ["--security-opt", "seccomp=profile.json"],
            "SecurityOpt",
            ['seccomp={"defaultAction":"SCMP_ACT_ALLOW"}'],
        ),
        (["--security-opt", "no-new-privileges:true"], "SecurityOpt", ["no-new-privileges=true"]),
        (["--security-opt", "systempaths=unconfined"], "MaskedPaths", []),
        (["--cap-add", "sys_nice", "--cap-add", "CAP_CHOWN"], "CapAdd", ["CAP_CHOWN", "CAP_SYS_NICE"]),
        (["--cap-drop", "all", "--cap-drop", "chown"], "CapDrop", ["ALL"]),
        (["-v", "./rel:/x", "-v", "..:/y"], "Binds", ["/home/u/src/rel:/x", "/home/u:/y"]),
        (["-v", "rel/dir:/x", "-v", "~/x:/y"], "Binds", ["rel/dir:/x", "~/x:/y"]),
        (["-v", "/a:/b:ro,Z"], "Binds", ["/a:/b:ro,Z"]),
        (["--mount", "dst=/x"], "Mounts", [{"Type": "volume", "Target": "/x"}]),
        (
            ["--mount", "type=bind,src=./x,dst=/x,readonly,bind-propagation=rslave"],
            "Mounts",
            [
                {
                    "Type": "bind",
                    "Source": "/home/u/src/x",
                    "Target": "/x",
                    "ReadOnly": True,
                    "BindOptions": {"Propagation": "rslave"},
                }
            ],
        ),
        (
            ["--mount", "type=tmpfs,dst=/x,tmpfs-size=1g,tmpfs-mode=1777,ro=false"],
            "Mounts",
            [{"Type": "tmpfs", "Target": "/x", "TmpfsOptions": {"SizeBytes": 2**30, "Mode": 0o1777}}],
        ),
        (["--tmpfs", "/t:size=1g,mode=1777"], "Tmpfs", {"/t": "size=1g,mode=1777"}),
        (["--shm-size", "10.24g"], "ShmSize", 10995116277),
        (["-m", "16GB"], "Memory", 17179869184),
        (["--memory-swap", "-1"], "MemorySwap", -1),
        (["--cpus", "1.5"], "NanoCpus", 1500000000),
        (["--pids-limit", "-1"], "PidsLimit", -1),
        (["--ulimit", "memlock=-1:-1"], "Ulimits", [{"Name": "memlock", "Soft": -1, "Hard": -1}]),
        (["--restart", "on-failure:3"], "RestartPolicy", {"Name": "on-failure", "MaximumRetryCount": 3}),
        (["--init=false"], "Init", False),
        (["--network", "container:x"], "NetworkMode", "container:x"),
        (["--add-host", "h=host-gateway"], "ExtraHosts", ["h:host-gateway"]),
        (["--log-opt", "max-size=10m"], "LogConfig", {"Type": "", "Config": {"max-size": "10m"}}),
        (["--device-read-bps", "/dev/sda:1m"], "BlkioDeviceReadBps", [{"Path": "/dev/sda", "Rate": 2**20}]),
    ],
)
def test_the_host_config(options: list[str], key: str, said: object) -> None:
    assert create(*options)[1]["HostConfig"][key] == said


@pytest.mark.parametrize(
    ("published", "bindings"),
    [
        ("8080:80", {"80/tcp": [("", "8080")]}),
        ("127.0.0.1:8080:80/udp", {"80/udp": [("127.0.0.1", "8080")]}),
        ("80", {"80/tcp": [("", "")]}),
        (":80", {"80/tcp": [("", "")]}),
        ("127.0.0.1::80", {"80/tcp": [("127.0.0.1", "")]}),
        ("[::1]:80:81", {"81/tcp": [("::1", "80")]}),
        ("8000-8001:9000-9001", {"9000/tcp": [("", "8000")], "9001/tcp": [("", "8001")]}),
        ("8000-8002:9000", {"9000/tcp": [("", "8000-8002")]}),
        ("published=8080,target=80", {"80/tcp": [("", "8080")]}),
    ],
)
def test_ports(published: str, bindings: dict[str, list[tuple[str, str]]]) -> None:
    _, body = create("-p", published)

    assert body["HostConfig"]["PortBindings"] == {
        port: [{"HostIp": ip, "HostPort": host} for ip, host in ends] for port, ends in bindings.items()
    }
    assert body["ExposedPorts"] == {port: {} for port in bindings}


def test_the_query_has_the_name_and_the_platform() -> None:
    query, _ = create("--name", "n", "--platform", "linux/arm64")

    assert query == {"name": "n", "platform": "linux/arm64"}


def test_removal_and_pull_are_not_said_to_the_daemon() -> None:
    assert create("--rm", "--pull", "always") == create()


@pytest.mark.parametrize(
    "options",
    [
        ["--gpus", "none"],
        ["--gpus", "'\"device=2,3\"'"],
        ["--gpus", "device=0,device=1"],
        ["--device", "gpu.intel.com/all"],
        ["--device", "/dev/a:/dev/b:q"],
        ["--userns", "keep-id"],
        ["--ipc", "wat"],
        ["--security-opt", "seccomp=missing.json"],
        ["--security-opt", "wat=1"],
        ["--env-file", "missing"],
        ["--env-file", "export.env"],
        ["-e", "=x"],
        ["-e", ""],
        ["--shm-size", "16Gi"],
        ["--cpus", "x"],
        ["--ulimit", "memlock"],
        ["--ulimit", "memlock=2:1"],
        ["--ulimit", "wat=1"],
        ["-p", "host:80:80"],
        ["-p", "70000:80"],
        ["-p", "8000-8002:9000-9001"],
        ["-p", "80/wat"],
        ["-v", "a:b:c:d"],
        ["-v", "/a:/x", "-v", "/b:/x"],
        ["--mount", "type=wat,dst=/x"],
        ["--mount", "type=bind,src=/a"],
        ["--mount", "type=bind,src=/a,dst=/b,wat=1"],
        ["--rm", "--restart", "always"],
        ["--restart", "always:3"],
        ["-d", "-a", "stdout"],
        ["--pull", "newer"],
        ["--health-interval", "soon"],
        ["--no-healthcheck", "--health-cmd", "x"],
        ["--help"],
        ["--add-host", "h"],
        ["--log-opt", "x"],
    ],
    ids=" ".join,
)
def test_what_docker_refuses(options: list[str]) -> None:
    with pytest.raises(ArgvError) as raised:
        create(*options)

    assert not isinstance(raised.value, OnlyByCliError)
    assert raised.value.index > 1
    assert raised.value.reason.startswith("docker run: '--")


def test_an_image_that_docker_cannot_name() -> None:
    with pytest.raises(ArgvError, match=r"uppercase.*argv\[2\]"):
        spec_of("docker", "run", "Img")


@pytest.mark.parametrize(
    "options",
    [
        ["--cidfile", "x"],
        ["--mac-address", "02:42:ac:11:00:02"],
        ["--network", "a", "--network", "b"],
        ["--mount", "type=image,src=a,dst=/x"],
        ["--mount", "type=bind,src=/a,dst=/x,bind-recursive=disabled"],
    ],
    ids=" ".join,
)
def test_what_only_the_program_can_do(options: list[str]) -> None:
    with pytest.raises(OnlyByCliError, match=rf"'{options[0]}' .*argv\[") as raised:
        create(*options)

    assert raised.value.index > 1
