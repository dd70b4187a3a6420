"""Images for the engines: none can be pulled where nothing outside is reached; they are made here."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from tests.lab.engine import ContainerEngine

TINY: Final = "localhost/lemonpod-test/tiny"
"""busybox: a shell, `httpd -f -p PORT -h /www` that answers /health with 200, nc, and the rest of it."""

_PATH: Final = "ENV PATH=/usr/local/bin:/usr/bin:/bin:/sbin"
_BUSYBOX: Final = Path("/bin/busybox")
_PASSWD: Final = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n"
_GROUP: Final = "root:x:0:\nvideo:x:44:\nrender:x:104:\nuser:x:1000:\n"


def has_image(engine: ContainerEngine, image: str) -> bool:
    """Whether it can make a container of it."""
    target = f"/images/{image}/exists" if engine.runtime == "podman" else f"/images/{image}/json"
    return engine.ask("GET", target)[0] < 300


def import_image(engine: ContainerEngine, archive: Path, image: str, *changes: str) -> None:
    """Make an image of one layer; `changes` are lines as in a Containerfile."""
    said = [word for change in (_PATH, *changes) for word in ("--change", change)]
    with archive.open("rb") as file:
        engine.run_cli("import", *said, "-", f"{image}:latest", stdin=file, timeout=300)


def write_tiny(archive: Path) -> None:
    """The root folder of the tiny image as a tar archive."""
    unfinished = archive.with_suffix(".part")
    with tarfile.open(unfinished, "w") as tar:
        add_busybox(tar)
        add_folders(tar, "www")
        add_file(tar, "www/health", b"ok\n")
    unfinished.rename(archive)


def add_busybox(tar: tarfile.TarFile) -> None:
    """What every image has: a shell with its tools, users and groups, a place for temporary files."""
    add_folders(tar, "bin", "etc", "root", "proc", "sys", "dev", "run", "var", "tmp", "var/tmp")
    tar.add(_BUSYBOX.resolve(), "bin/busybox")
    applets = subprocess.run((_BUSYBOX, "--list"), capture_output=True, text=True, check=True).stdout
    for name in applets.split():
        if name != "busybox":
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    add_file(tar, "etc/passwd", _PASSWD.encode())
    add_file(tar, "etc/group", _GROUP.encode())


def add_folders(tar: tarfile.TarFile, *names: str) -> None:
    for name in names:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
        tar.addfile(entry)


def add_file(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
