"""What engines report of containers and images, by version."""

from __future__ import annotations

from typing import Any

import pytest

from lemonpod.drivers.records import (
    UNKNOWN_USAGE,
    container_info,
    docker_usage,
    image_info,
    is_for,
    is_named,
    listed,
    podman_usage,
    stop_timeout,
)
from lemonpod.drivers.runtime import Published, Usage
from lemonpod.launch.container import Platform

ID = "f02a069058855659a45d17cf9d5b5f1872539e0279c5f21d655d4664ffb4b5fb"
NEVER = "0001-01-01T00:00:00Z"


def record(status: str, **state: Any) -> dict[str, Any]:
    """As podman 4.3.1 has it, but for `state`."""
    return {
        "Id": ID,
        "Name": "n-8001",
        "State": {
            "Status": status,
            "Running": status == "running",
            "OOMKilled": False,
            "Pid": 0,
            "ExitCode": 0,
            "Error": "",
            "StartedAt": NEVER,
            "FinishedAt": NEVER,
            **state,
        },
        "Config": {"Labels": {"a": "1"}, "StopTimeout": 10, "StopSignal": 15, "Tty": False},
        "HostConfig": {"NetworkMode": "host"},
        "NetworkSettings": {"Ports": {}},
    }


def test_a_container_that_runs() -> None:
    info = container_info(record("running", Pid=21440, StartedAt="2026-11-30T04:29:09.618247798Z"))
    assert (info.id, info.name, info.labels) == (ID, "n-8001", {"a": "1"})
    assert (info.running, info.pid, info.exit_code, info.finished_at) == (True, 21440, None, None)
    assert info.started_at == pytest.approx(1796012949.618247)
    assert info.host_network


def test_a_container_that_ended() -> None:
    info = container_info(
        record(
            "exited",
            ExitCode=137,
            OOMKilled=True,
            StartedAt="2026-11-30T04:29:09.618247798+01:00",
            FinishedAt="2026-11-30T04:29:10+01:00",
        )
    )
    assert (info.running, info.pid, info.exit_code, info.oom_killed) == (False, None, 137, True)
    assert info.finished_at == 1796009350.0


def test_a_container_that_never_ran() -> None:
    info = container_info(record("created", ExitCode=127, Error="no such program"))
    assert (info.running, info.exit_code, info.started_at, info.finished_at) == (False, None, None, None)
    assert info.error == "no such program"


def test_a_container_that_was_started_again() -> None:
    """Its last end is not that of what runs now."""
    times = {"StartedAt": "2026-11-30T04:30:00Z", "FinishedAt": "2026-11-30T04:29:00Z"}
    info = container_info(record("running", Pid=7, ExitCode=3, **times))
    assert (info.exit_code, info.finished_at) == (None, None)


@pytest.mark.parametrize(
    ("status", "running"),
    [
        ("running", True),
        ("paused", True),
        ("stopping", True),
        ("configured", False),
        ("created", False),
        ("initialized", False),
        ("restarting", False),
        ("stopped", False),
        ("exited", False),
        ("removing", False),
        ("dead", False),
        ("unknown", False),
        ("a word of next year", False),
        ("", False),
    ],
)
def test_words_of_all_versions(status: str, running: bool) -> None:  # C15
    assert container_info(record(status, Running=True)).running is running
    assert listed({"Id": ID, "State": status.title()}).running is running


def test_the_answer_to_a_second_start_is_no_error() -> None:
    assert container_info(record("exited", Error=f"container {ID}: container is running")).error == ""


def test_what_may_be_left_out() -> None:
    info = container_info({"Id": ID, "Name": None, "State": None, "Config": {"Labels": None}})
    assert (info.name, info.status, info.running, info.labels) == ("", "", False, {})
    assert info.published == ()
    assert not info.host_network


def test_published_ports() -> None:
    said = record("running", Pid=1)
    said["NetworkSettings"]["Ports"] = {
        "80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8080"}, {"HostIp": "::", "HostPort": "8080"}],
        "81/tcp": [{"HostIp": "", "HostPort": "8081"}],
        "82/tcp": None,
        "53/udp": [{"HostIp": "127.0.0.1", "HostPort": "53"}],
    }
    assert container_info(said).published == (
        Published("0.0.0.0", 8080),
        Published("::", 8080),
        Published("0.0.0.0", 8081),
    )


def test_names_and_ids_are_compared_whole() -> None:  # C03
    assert is_named({"Id": ID, "Name": "/n-80010"}, "n-80010")
    assert is_named({"Id": ID, "Name": "n-80010"}, ID)
    assert not is_named({"Id": ID, "Name": "/n-80010"}, "n-8001")
    assert not is_named({"Id": ID, "Name": "/n-80010"}, ID[:12])


def test_an_entry_of_a_list() -> None:
    assert listed({"Id": ID, "Names": ["/linked/n-1", "/n-1"], "State": "running"}).name == "n-1"
    assert listed({"Id": ID, "Names": None, "Labels": None}).name == ""


def test_the_grace_of_a_stop() -> None:
    assert stop_timeout({"Config": {"StopTimeout": 0}}) == 0
    assert stop_timeout({"Config": {"StopTimeout": None}}) == stop_timeout({}) == 10


def test_an_image() -> None:
    manifest, index = "x@sha256:1", "x@sha256:2"
    image = image_info({"Id": "sha256:abc", "RepoDigests": [manifest, index], "Os": "linux", "Variant": ""})
    assert (image.id, image.digests) == ("abc", (manifest, index))  # C09
    assert image.platform == Platform(os="linux")


@pytest.mark.parametrize(
    ("image", "wanted", "expected"),
    [
        ("linux/amd64", "linux/amd64", True),
        ("linux/amd64", "linux/x86_64", True),
        ("linux/arm64/v8", "linux/aarch64", True),
        ("linux/arm/v6", "linux/arm/v7", False),
        ("linux/amd64", "linux/arm64", False),
        ("linux/amd64", "windows", False),
        ("linux", "linux/arm64", True),
    ],
)
def test_platforms(image: str, wanted: str, expected: bool) -> None:
    def platform(text: str) -> Platform:
        return Platform(**dict(zip(("os", "arch", "variant"), text.split("/"), strict=False)))

    assert is_for(platform(image), platform(wanted)) is expected


def test_usage_of_podman() -> None:
    said = {"Error": None, "Stats": [{"CPUNano": 28_411_223, "MemUsage": 647_168, "PIDs": 1}]}
    assert podman_usage(said) == Usage(cpu_seconds=0.028411223, memory_bytes=647_168, processes=1)
    assert podman_usage({"Error": None, "Stats": [{"CPUNano": 0, "MemUsage": 0, "PIDs": 0}]}) == UNKNOWN_USAGE
    assert podman_usage({"Error": {}, "Stats": None}) == UNKNOWN_USAGE


@pytest.mark.parametrize("regained", ["inactive_file", "total_inactive_file"])
def test_usage_of_docker(regained: str) -> None:
    said = {
        "pids_stats": {"current": 3},
        "cpu_stats": {"cpu_usage": {"total_usage": 2_000_000_000}},
        "memory_stats": {"usage": 1000, "stats": {regained: 100}},
    }
    assert docker_usage(said) == Usage(cpu_seconds=2.0, memory_bytes=900, processes=3)
    ended = {"pids_stats": {}, "cpu_stats": {"cpu_usage": {"total_usage": 0}}, "memory_stats": {}}
    assert docker_usage(ended) == UNKNOWN_USAGE
