from __future__ import annotations

import platform
from pathlib import Path

import pytest

from lemonpod.contract.vocabulary import Accelerator, Os
from lemonpod.errors import ConfigError
from lemonpod.host.detect import detect
from lemonpod.host.facts import HostFacts
from lemonpod.host.tree import Folder

VERSION = "Linux version 6.18.3-200.fc43.x86_64 (mockbuild@x) (gcc) #1 SMP\n"
RELEASE = 'NAME="Fedora Linux"\nVERSION="43 (Workstation Edition)"\nID=fedora\nVERSION_ID=43\n'
CPUINFO = (
    "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD RYZEN AI MAX+ 395 w/ Radeon 8060S \n\n"
    "processor\t: 1\nmodel name\t: AMD RYZEN AI MAX+ 395 w/ Radeon 8060S \n"
)
MEMINFO = "MemTotal:       127098456 kB\nMemFree:        100 kB\n"


def root(folder: Path, **files: str | bytes) -> Path:
    """A machine with these files; `proc_version` is /proc/version."""
    for name, content in files.items():
        path = folder / name.replace("__", "-").replace("_", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def linux(folder: Path) -> HostFacts:
    return detect(Folder(folder))


def test_a_whole_machine(tmp_path: Path) -> None:
    machine = root(
        tmp_path, proc_version=VERSION, etc_os__release=RELEASE, proc_cpuinfo=CPUINFO, proc_meminfo=MEMINFO
    )
    assert linux(machine) == HostFacts(
        os=Os.LINUX,
        os_version="Linux-6.18.3-200.fc43.x86_64 (Fedora Linux 43)",
        machine="x86_64",
        cpu_name="AMD RYZEN AI MAX+ 395 w/ Radeon 8060S",
        cpu_count=2,
        memory_bytes=127098456 * 1024,
        accelerators=(Accelerator.CPU,),
    )


def test_a_machine_that_shows_nothing(tmp_path: Path) -> None:
    facts = linux(tmp_path / "nothing")
    assert (facts.os_version, facts.cpu_name, facts.cpu_count, facts.memory_bytes) == (None,) * 4
    assert facts.accelerators == (Accelerator.CPU,)


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("NAME='Debian GNU/Linux'\nVERSION_ID=\"12\"\n", "Debian GNU/Linux 12"),
        ("NAME=Arch\n", "Arch"),
        ("VERSION_ID=1\n", "1"),
        ('NAME="Fedora Linux"\r\nVERSION_ID=43\r\n', "Fedora Linux 43"),
        ('NAME="Half\nVERSION_ID=7\n', "7"),
        ("# NAME=x\nFULL_NAME=y\nNAME=z\n", "z"),
        ('NAME=""\n', None),
        ("", None),
        ("NAME=Caf\u00e9\n", "Café"),
    ],
)
def test_the_distribution(tmp_path: Path, release: str, expected: str | None) -> None:
    machine = root(tmp_path, proc_version=VERSION, etc_os__release=release)
    kernel = "Linux-6.18.3-200.fc43.x86_64"
    assert linux(machine).os_version == (f"{kernel} ({expected})" if expected else kernel)


def test_the_distribution_may_stand_in_usr_lib_only(tmp_path: Path) -> None:
    assert linux(root(tmp_path, usr_lib_os__release=RELEASE)).os_version == "Fedora Linux 43"


@pytest.mark.parametrize(
    ("cpuinfo", "name", "count"),
    [
        ("processor\t: 0\nBogoMIPS\t: 50\nprocessor\t: 1\n", None, 2),
        ("model name\t:\nprocessor : 0\n", None, 1),
        ("Processor\t: ARMv7\n", None, None),
        ("\xff\xfe", None, None),
    ],
)
def test_a_processor_that_says_less(
    tmp_path: Path, cpuinfo: str, name: str | None, count: int | None
) -> None:
    facts = linux(root(tmp_path, proc_cpuinfo=cpuinfo))
    assert (facts.cpu_name, facts.cpu_count) == (name, count)


@pytest.mark.parametrize("meminfo", ["", "MemTotal:\n", "MemTotal: lots kB\n", "XMemTotal: 1 kB\n"])
def test_memory_that_is_unknown(tmp_path: Path, meminfo: str) -> None:
    assert linux(root(tmp_path, proc_meminfo=meminfo)).memory_bytes is None


def test_files_that_are_none_raise_nothing(tmp_path: Path) -> None:
    for name in ("proc/version", "proc/cpuinfo", "proc/meminfo", "etc/os-release"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "usr" / "lib").mkdir(parents=True)
    (tmp_path / "usr" / "lib" / "os-release").symlink_to("os-release")
    assert linux(tmp_path).os_version is None


@pytest.mark.parametrize(("system", "expected"), [("darwin", Os.DARWIN), ("win32", Os.WINDOWS)])
def test_other_systems_say_what_python_knows(system: str, expected: Os) -> None:
    facts = detect(system=system)
    assert (facts.accelerators[0] is Accelerator.METAL) is (expected is Os.DARWIN)
    assert facts.os is expected
    assert facts.machine == platform.machine()
    assert (facts.memory_bytes, facts.cpu_count) == (None, None)


def test_a_system_that_manifests_have_no_name_for() -> None:
    with pytest.raises(ConfigError, match="freebsd14"):
        detect(system="freebsd14")


def test_this_machine() -> None:
    facts = detect()
    assert facts.machine == platform.machine()
    assert facts.accelerators[-1] is Accelerator.CPU


@pytest.mark.parametrize(
    ("cpuinfo", "kernel", "expected"),
    [
        ("vendor_id\t: GenuineIntel\n", None, "x86_64"),
        ("CPU implementer\t: 0x41\n", None, "aarch64"),
        ("isa\t: rv64\n", "riscv64\n", "riscv64"),
        ("isa\t: rv64\n", None, None),
    ],
)
def test_the_instruction_set_of_files_from_elsewhere(
    tmp_path: Path, cpuinfo: str, kernel: str | None, expected: str | None
) -> None:
    machine = root(tmp_path, proc_cpuinfo=cpuinfo)
    if kernel:
        root(tmp_path, proc_sys_kernel_arch=kernel)
    assert linux(machine).machine == expected


@pytest.mark.parametrize(
    ("cpuinfo", "cores"),
    [
        ("physical id\t: 0\ncore id\t\t: 0\nphysical id\t: 0\ncore id\t\t: 0\n", 1),
        ("physical id\t: 0\ncore id\t\t: 3\nphysical id\t: 1\ncore id\t\t: 3\n", 2),
        ("processor\t: 0\n", None),
        ("physical id\t: 0\n", None),
    ],
)
def test_threads_that_share_a_core(tmp_path: Path, cpuinfo: str, cores: int | None) -> None:
    assert linux(root(tmp_path, proc_cpuinfo=cpuinfo)).core_count == cores
