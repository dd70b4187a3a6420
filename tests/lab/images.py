"""Images for the engines: none can be pulled where nothing outside is reached, so they are made here."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from tests.lab.engine import ContainerEngine

TINY: Final = "localhost/lemonpod-test/tiny"
"""busybox: a shell, `httpd -f -p PORT -h /www` that answers /health with 200, nc, and the rest of it."""

_BUSYBOX: Final = Path("/bin/busybox")
_PASSWD: Final = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n"
_GROUP: Final = "root:x:0:\nvideo:x:44:\nrender:x:104:\nuser:x:1000:\n"


def import_tiny(engine: ContainerEngine, folder: Path) -> None:
    """Give the engine the tiny image, if it has none."""
    if has_image(engine, TINY):
        return
    archive = folder / "tiny.tar"
    if not archive.exists():
        write_tiny(archive)
    import_image(engine, archive, TINY)


def has_image(engine: ContainerEngine, image: str) -> bool:
    target = f"/images/{image}/exists" if engine.runtime == "podman" else f"/images/{image}/json"
    return engine.ask("GET", target)[0] < 300


def import_image(engine: ContainerEngine, archive: Path, image: str, *changes: str) -> None:
    """Make an image of one layer; `changes` are lines as in a Containerfile."""
    path = "ENV PATH=/usr/local/bin:/usr/bin:/bin:/sbin"
    said = [word for change in (path, 'CMD ["/bin/sh"]', *changes) for word in ("--change", change)]
    with archive.open("rb") as file:
        engine.run_cli("import", *said, "-", f"{image}:latest", stdin=file, timeout=300)


def write_tiny(archive: Path) -> None:
    """A root folder with busybox in it, as a tar archive."""
    with tarfile.open(archive.with_suffix(".part"), "w") as tar:
        for folder in ("bin", "etc", "www", "tmp", "root", "proc", "sys", "dev", "run", "var", "var/tmp"):
            _folder(tar, folder, 0o1777 if folder.endswith("tmp") else 0o755)
        tar.add(_BUSYBOX.resolve(), "bin/busybox")
        applets = subprocess.run((_BUSYBOX, "--list"), capture_output=True, text=True, check=True).stdout
        for name in applets.split():
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        for name, text in (("etc/passwd", _PASSWD), ("etc/group", _GROUP), ("www/health", "ok\n")):
            _file(tar, name, text.encode())
    archive.with_suffix(".part").rename(archive)


def _folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    tar.addfile(entry)


def _file(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
