"""`lemonpod backends install-external` and `uninstall-external`, as people and pipes run them."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lemonpod.cli.app import run
from tests.archives import SCRIPT, tar_of
from tests.factories import make_document
from tests.https_site import Certificates, Site, make_certificates, serving
from tests.unit.install.recipes import digest, variant
from tests.waiting import until

INSTALL = ["backends", "install-external", "test-engine"]
UNINSTALL = ["backends", "uninstall-external", "test-engine"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def site(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with serving(certificates) as site:
        yield site


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder(home: Path) -> Path:
    """What is installed of the recipe."""
    return home / ".cache/lemonade/external/test-engine"


def write(home: Path, document: dict[str, Any]) -> Path:
    path = home / ".config/lemonade/backends/test-engine.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    path.chmod(0o644)
    return path


def kept(folder: Path) -> list[int]:
    """The sizes of downloads that are not complete."""
    return [path.stat().st_size for path in folder.glob(".download*") if not path.suffix]


def command(*words: str, **options: Any) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "lemonpod", *words]
    return subprocess.Popen(line, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_what_is_told_and_done(
    site: Site, home: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = tar_of({"x/server": SCRIPT})
    path = write(home, variant(site.add("/a.tgz", content), digest(content)))

    assert run([*INSTALL, "--yes"]) == 0
    out = capsys.readouterr().out
    *lines, last = out.splitlines()
    assert lines[:8] == [
        "External backend: Test engine (test-engine)",
        f"  manifest: {path}",
        "  variant_of: llamacpp",
        f"  source: {site.url}/a.tgz",
        f"  sha256: {digest(content)}",
        "  version_policy: pinned",
        "  capabilities: chat_completion, completion",
        "  block: platforms.linux.cpu",
    ]
    assert f"  goes to: {folder}" in lines
    assert "  WARNING: this backend runs as an external subprocess. No process" in lines
    assert "           sandbox is enforced by this RFC; run only manifests you trust." in lines
    installed = Path(last.removeprefix("installed to "))
    assert installed.read_bytes() == SCRIPT
    assert folder in installed.parents


def test_behind_a_pipe_nobody_consents(
    site: Site, home: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(home, variant(site.add("/a", SCRIPT), digest(SCRIPT)))

    assert run(INSTALL) == 1
    told = capsys.readouterr()
    assert "WARNING: this backend" in told.out
    assert told.err == "Refusing to install without --yes on a non-interactive terminal.\nAborted.\n"
    assert run(UNINSTALL) == 1
    assert "Refusing to uninstall without --yes" in capsys.readouterr().err
    assert path.exists()
    assert not folder.exists()
    assert site.asked == []


@pytest.mark.parametrize(("answer", "code", "asked"), [("y\n", 0, 1), ("\n", 1, 0), ("n\n", 1, 0)])
def test_on_a_terminal_people_are_asked(site: Site, home: Path, answer: str, code: int, asked: int) -> None:
    write(home, variant(site.add("/a", SCRIPT), digest(SCRIPT)))
    ours, theirs = pty.openpty()
    with open(ours, "wb", buffering=0) as terminal, open(theirs) as stdin:
        terminal.write(answer.encode())
        process = command(*INSTALL, stdin=stdin)
        out, err = process.communicate(timeout=30)

    assert "Proceed? [y/N] " in out
    assert process.returncode == code, err
    assert ("Aborted." in err) is (code == 1)
    assert len(site.asked) == asked


@pytest.mark.parametrize("verb", ["install-external", "uninstall-external"])
def test_an_unknown_recipe(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backends", verb, "../../x", "--yes"]) == 1
    assert "No external backend manifest found for recipe '../../x'." in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["install-external", "uninstall-external"])
def test_a_refused_manifest_is_named(home: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(home, variant("https://localhost/a", f"sha256:{'AB' * 32}"))
    assert run(["backends", verb, "test-engine", "--yes"]) == 1
    told = capsys.readouterr().err
    assert "No external backend manifest found for recipe 'test-engine'." in told
    assert f"hint: {path} was rejected: platforms.linux.cpu.sha256: 'sha256' must be" in told


def test_choices_are_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = {
        name: {"binary": "x", "source": f"https://127.0.0.1:9/{name}", "sha256": digest(b"")}
        for name in ("cpu", "rocm")
    }
    write(home, make_document(variant_of="llamacpp", platforms={"linux": blocks}))

    assert run([*INSTALL, "--yes"]) == 1
    assert "pick one with --accelerator (cpu, rocm)" in capsys.readouterr().err
    assert run([*INSTALL, "--yes", "--accelerator", "tpu"]) == 1
    assert "no platform block for accelerator 'tpu'" in capsys.readouterr().err


def test_there_is_nothing_to_download(home: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So nobody need consent to it."""
    write(home, make_document(variant_of="llamacpp", platforms={"linux": {"cpu": {"binary": "x"}}}))
    assert run(INSTALL) == 0
    out = capsys.readouterr().out
    assert "  source: (user-provided binary)" in out
    assert out.endswith(f"no pinned source; binary is user-provided at {folder}\n")

    write(home, make_document())
    assert run(INSTALL) == 0
    assert capsys.readouterr().out.endswith("no pinned source; binary is user-provided at /opt/engine\n")


def test_what_a_terminal_would_obey_is_not_printed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, make_document(display_name="a\x1b[2Jb"))
    assert run(INSTALL) == 0
    assert "\x1b" not in capsys.readouterr().out


async def test_interrupted_and_gone_on_with(site: Site, home: Path, folder: Path) -> None:
    content = tar_of({"server": SCRIPT, "large": os.urandom(300_000)})
    write(home, variant(site.add("/a.tgz", content, stall_after=200_000), digest(content)))
    process = command(*INSTALL, "--yes")
    await until(lambda: kept(folder) == [200_000])
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert err == (
        "interrupted, nothing was installed; 200000 bytes of the download are kept, "
        "and the same command goes on with them\n"
    )
    assert kept(folder) == [200_000]
    assert [name for name in os.listdir(folder) if not name.startswith(".download")] == []
    site.pages["/a.tgz"].stall_after = None
    assert run([*INSTALL, "--yes"]) == 0
    assert site.asked[-1][1] == "bytes=200000-"
    assert kept(folder) == []


@pytest.mark.parametrize("unpacked", [False, True])
def test_no_room(site: Site, home: Path, folder: Path, unpacked: bool) -> None:
    """Stood in for by a limit to the size of a file: of the download, or of what is in it."""
    content = tar_of({"server": SCRIPT, "large": bytes(4 << 20) if unpacked else os.urandom(4 << 20)})
    write(home, variant(site.add("/a.tgz", content), digest(content)))
    process = command(
        *INSTALL, "--yes", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    )
    _, err = process.communicate(timeout=30)

    assert process.returncode == 1
    assert f"error: no room is left in {folder}: File too large; nothing was installed" in err
    assert not folder.exists()


def test_uninstalled(site: Site, home: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(home, variant(site.add("/a", SCRIPT), digest(SCRIPT)))
    run([*INSTALL, "--yes"])
    capsys.readouterr()

    assert run([*UNINSTALL, "--yes"]) == 0
    out = capsys.readouterr().out
    assert f"  removes: {path}\n  removes: {folder}, with everything in it\n" in out
    assert out.endswith(f"removed {path}\nremoved {folder}\n")
    assert not path.exists()
    assert not folder.exists()


def test_uninstalled_without_an_install(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(home, make_document())

    assert run([*UNINSTALL, "--yes"]) == 0
    assert capsys.readouterr().out.endswith(f"removed {path}\n")
    assert not path.exists()


def test_what_comes_with_lemonpod_stays(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backends", "uninstall-external", "llama-podman", "--yes"]) == 1
    assert "Refusing to remove '" in capsys.readouterr().err


def test_options_before_the_command_are_not_swallowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backends", "--cache-dir", "/x", "install-external", "test-engine"]) == 2
    assert "options go behind install-external" in capsys.readouterr().err
