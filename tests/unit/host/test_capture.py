"""A capture holds all that the facts came from, and nothing about the machine's owner."""

from __future__ import annotations

import getpass
import json
import os
import socket
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lemonpod.cli.app import app, run
from lemonpod.host.capture import Recorder, captured
from lemonpod.host.detect import detect
from lemonpod.host.document import document, open_tree
from lemonpod.host.facts import HostFacts
from lemonpod.host.tree import Folder
from tests.hardware import FILES, machine


def without_serials(facts: HostFacts) -> HostFacts:
    return replace(facts, gpus=tuple(replace(gpu, uuid=gpu.uuid and "known") for gpu in facts.gpus))


def capture(value: dict[str, Any]) -> dict[str, Any]:
    tree = Recorder(document(value))
    detect(tree)
    return captured(tree)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_capture_gives_the_same_facts(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "capture.json"
    result = CliRunner().invoke(app, ["host", "--root", str(file), "--capture", str(copy), "--json"])
    assert result.exit_code == 0, result.output

    again = CliRunner().invoke(app, ["host", "--root", str(copy), "--json"])

    assert json.loads(again.stdout) == json.loads(result.stdout)
    assert without_serials(detect(open_tree(copy))) == without_serials(detect(open_tree(file)))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_capture_has_the_form_of_the_machines(file: Path) -> None:
    made = capture(json.loads(file.read_bytes()))

    assert {"user", "groups", "files", "links", "dirs", "nodes", "unreadable"} <= made.keys()
    assert made["user"].keys() == {"uid", "gid", "groups"}
    assert all(isinstance(text, str) for text in made["files"].values())
    assert all({"path", "mode", "uid", "gid"} <= node.keys() for node in made["nodes"])


def test_serial_numbers_become_ordinals_and_stay_what_tells_gpus_apart() -> None:
    original = json.dumps(machine("mi300x-x8"))
    text = json.dumps(capture(machine("mi300x-x8")))
    facts = detect(document(json.loads(text)))

    assert [gpu.uuid for gpu in facts.gpus] == [f"GPU-{number:016x}" for number in range(1, 9)]
    for gpu in detect(document(json.loads(original))).gpus:
        assert gpu.uuid is not None
        serial = int(gpu.uuid.removeprefix("GPU-"), 16)
        assert str(serial) in original
        assert str(serial) not in text
        assert f"{serial:x}" not in text


def test_uuids_go_wherever_they_stand() -> None:
    made = capture(machine("h200-x4-vm"))
    text = json.dumps(made)

    for gpu in detect(document(machine("h200-x4-vm"))).gpus:
        assert (gpu.uuid or "?").removeprefix("GPU-") not in text
    assert "47505500-0001" not in text  # of a virtual machine's bus, in a path
    assert [gpu.uuid for gpu in detect(document(made)).gpus].count(None) == 0


def test_who_built_a_kernel_is_nobodys_business() -> None:
    own = machine("rtx4090-proc")
    own["files"]["/proc/version"] = "Linux version 6.9.0 (alice@alicebox) (gcc 13) #1 SMP\n"
    own["files"]["/proc/cpuinfo"] += "Serial\t\t: 10000000abcdef\n"
    own["files"]["/etc/os-release"] += 'HOSTNAME="alicebox"\n'
    own["files"]["/etc/hostname"] = "alicebox\n"

    text = json.dumps(capture(own))

    assert "alice" not in text
    assert "abcdef" not in text
    assert "dvs-builder" not in text
    assert "6.9.0" in text


def test_a_kernel_that_only_its_builder_calls_microsofts() -> None:
    own = machine("wsl2-nvidia")
    own["files"]["/proc/version"] = "Linux version 6.6.1 (root@box) (gcc) #1 Microsoft SMP\n"

    assert [gpu.driver for gpu in detect(document(capture(own))).gpus] == ["dxgkrnl"]


def test_users_and_their_groups_are_numbers_that_everybody_has() -> None:
    own = machine("rtx4090-proc")
    own["user"] = {"name": "alice", "uid": 81234, "gid": 90000, "groups": ["acme", "alice"]}
    own["groups"] = {"root": 0, "acme": 5000, "alice": 90000, "render": 992}
    own["nodes"] = [
        {"path": "/dev/nvidiactl", "mode": "0660", "uid": 0, "gid": "acme"},
        {"path": "/dev/nvidia0", "mode": "0600", "uid": 81234, "gid": "alice"},
    ]

    made = capture(own)

    assert made["user"] == {"uid": 1000, "gid": 1000, "groups": [1000, 5000]}
    assert {node["path"]: (node["uid"], node["gid"]) for node in made["nodes"]} == {
        "/dev/nvidia0": (1000, 1000),
        "/dev/nvidiactl": (0, 5000),
    }
    assert all(word not in json.dumps(made) for word in ("alice", "acme", "81234", "90000"))
    assert detect(document(made)).accelerators == detect(document(own)).accelerators


def test_what_no_mode_says_is_said_beside_it() -> None:
    class Granted(Recorder):
        """The kernel grants more than the mode, as an access list of a desktop session does."""

        def may_open(self, node: Any) -> bool:
            return self.opens.setdefault(node.path, True)

    own = machine("strix-halo-gfx1151")
    own["user"] = {"uid": 1000, "gid": 1000, "groups": []}
    for node in own["nodes"]:
        node["mode"] = "0660"
    tree = Granted(document(own))
    facts = detect(tree)

    made = captured(tree)

    assert {node["open"] for node in made["nodes"]} == {True}
    assert detect(document(made)) == facts
    assert "rocm" in facts.accelerators


def test_a_gpu_of_which_only_its_folder_is_there() -> None:
    """Where a container hides /sys and what the driver's folder holds leads elsewhere."""
    value = machine("arc-a770-i915")
    value["links"]["/proc/driver/nvidia/gpus/0000:01:00.0/power"] = "/etc/group"
    facts = detect(document(value))
    assert "0000:01:00.0" in [gpu.pci_address for gpu in facts.gpus]

    assert without_serials(detect(document(capture(value)))) == without_serials(facts)


def test_this_machine(tmp_path: Path) -> None:
    copy = tmp_path / "capture.json"
    result = CliRunner().invoke(app, ["host", "--capture", str(copy)])
    assert result.exit_code == 0, result.output
    text = copy.read_text()

    assert without_serials(detect(open_tree(copy))) == without_serials(detect(Folder()))
    addresses = {path.read_text().strip() for path in Path("/sys/class/net").glob("*/address")}
    personal = {socket.gethostname(), getpass.getuser(), os.path.expanduser("~"), *addresses}
    for name in ("/etc/machine-id", "/sys/class/dmi/id/product_uuid", "/proc/sys/kernel/random/boot_id"):
        if os.access(name, os.R_OK):
            personal.add(Path(name).read_text().strip())
    words = set(text.replace('"', " ").replace("/", " ").replace("\\n", " ").split())
    assert not words & (personal - {"root", ""})
    assert f"{uuid.getnode():012x}" not in text


@pytest.mark.parametrize("option", ["--root", "--capture"])
def test_a_place_that_is_none(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "none" / "machine.json"

    assert run(["host", option, str(place)]) == 3
    assert f"error: {place}: No such file or directory" in capsys.readouterr().err
