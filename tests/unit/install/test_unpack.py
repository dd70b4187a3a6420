"""Archives: good ones of every form, and hostile ones, of which nothing is outside of the folder.  # F15"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from lemonpod.errors import ArchiveError
from lemonpod.install.archive import limits
from lemonpod.install.archive.unpack import unpack
from tests.archives import (
    LINK,
    SCRIPT,
    many_entries,
    many_listed,
    member,
    tar,
    tar_of,
    zeros_gz,
    zeros_zip,
    zip_of,
)


def run(tmp_path: Path, content: bytes, name: str, *binaries: str, pinned: bool = True) -> dict[str, str]:
    (tmp_path / "fetched").write_bytes(content)
    (tmp_path / "root").mkdir()
    return unpack(tmp_path / "fetched", name, tmp_path / "root", binaries or ("server",), pinned=pinned)


FORMS: dict[str, Callable[[], bytes]] = {
    "a.tar": lambda: tar_of({"server": SCRIPT}, ""),
    "a.tar.gz": lambda: tar_of({"server": SCRIPT}, "gz"),
    "a.tgz": lambda: tar_of({"server": SCRIPT}, "gz"),
    "a.tar.bz2": lambda: tar_of({"server": SCRIPT}, "bz2"),
    "a.tar.xz": lambda: tar_of({"server": SCRIPT}, "xz"),
    "a.zip": lambda: zip_of([("server", SCRIPT, 0o100755)]),
    "download": lambda: tar_of({"server": SCRIPT}, "xz"),
    "a": lambda: SCRIPT,
    "b": lambda: b"pinned, so it is what its author meant",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form(tmp_path: Path, name: str) -> None:
    content = FORMS[name]()

    assert run(tmp_path, content, name) == {"server": "server"}
    path = tmp_path / "root/server"
    assert path.read_bytes() == (content if name in "ab" else SCRIPT)
    assert os.access(path, os.X_OK)


@pytest.mark.parametrize("packed", ["gz", "bz2", "xz"])
def test_streams_that_follow_each_other(tmp_path: Path, packed: str) -> None:
    """As pigz, pbzip2 and pixz write them."""
    packers: dict[str, Callable[[bytes], bytes]] = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
    }
    pack = packers[packed]
    plain = tar_of({"server": SCRIPT * 10000}, "")

    run(
        tmp_path,
        b"".join(pack(plain[at : at + 50000]) for at in range(0, len(plain), 50000)),
        f"a.tar.{packed}",
    )
    assert (tmp_path / "root/server").read_bytes() == SCRIPT * 10000


def test_a_wrapper_folder_and_a_file_without_modes(tmp_path: Path) -> None:  # F15
    content = tar([member("llama-b1", type=tarfile.DIRTYPE), member("llama-b1/server", SCRIPT, mode=0o644)])

    assert run(tmp_path, content, "a.tar.gz") == {"server": "llama-b1/server"}
    assert stat.S_IMODE((tmp_path / "root/llama-b1/server").stat().st_mode) == 0o755


def test_a_zip_without_modes(tmp_path: Path) -> None:  # F15
    assert run(tmp_path, zip_of([("x/", b"", 0), ("x/server", SCRIPT, 0)]), "a.zip") == {"server": "x/server"}
    assert os.access(tmp_path / "root/x/server", os.X_OK)


def test_the_least_deep_of_several(tmp_path: Path) -> None:
    content = tar_of({"a/b/server": b"", "bin/server": SCRIPT, "share/server": b"", "server.txt": b""})

    assert run(tmp_path, content, "a.tar.gz") == {"server": "bin/server"}


def test_a_name_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    assert run(tmp_path, tar_of({"x": SCRIPT}), "a.tar.gz", "server", "x") == {"x": "x"}


def test_links_that_stay_inside(tmp_path: Path) -> None:
    content = tar(
        [
            member("lib/libx.so.1", b"x", mode=0o644),
            member("lib/libx.so", type=tarfile.SYMTYPE, linkname="libx.so.1"),
            member("bin/server", type=tarfile.SYMTYPE, linkname="../lib/libx.so"),
            member("copy", type=tarfile.LNKTYPE, linkname="./lib/libx.so.1"),
        ]
    )
    run(tmp_path, content, "a.tar.gz")
    root = tmp_path / "root"

    assert (root / "bin/server").read_bytes() == (root / "copy").read_bytes() == b"x"
    assert os.readlink(root / "lib/libx.so") == "libx.so.1"


def test_a_link_in_a_zip(tmp_path: Path) -> None:
    run(tmp_path, zip_of([("server", b"real", LINK), ("real", SCRIPT, 0o100755)]), "a.zip")

    assert (tmp_path / "root/server").read_bytes() == SCRIPT


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.DIRTYPE)


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.SYMTYPE, linkname=target)


def hard(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.LNKTYPE, linkname=target)


HOSTILE = {
    "parent": [member("../x", b"x")],
    "parent-inside": [member("a/../../x", b"x")],
    "absolute": [member("/etc/x", b"x")],
    "link-absolute": [link("x", "/etc")],
    "link-out": [link("a/x", "../../y")],
    "link-through-links": [folder("p/q"), link("p/q/d", "../.."), link("x", "p/q/d/../y")],
    "link-then-file": [link("x", "/tmp"), member("x/y", b"x")],
    "link-inside-then-file": [folder("d"), link("x", "d"), member("x/y", b"x")],
    "link-empty": [link("x", "")],
    "link-to-itself": [link("x", "x")],
    "links-in-a-circle": [link("x", "y"), link("y", "x")],
    "hard-out": [hard("x", "../../x")],
    "hard-absolute": [hard("x", "/etc/passwd")],
    "hard-to-link": [link("x", "y"), hard("z", "x")],
    "hard-before": [hard("x", "y"), member("y", b"y")],
    "character-device": [member("x", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "block-device": [member("x", type=tarfile.BLKTYPE, devmajor=8)],
    "pipe": [member("x", type=tarfile.FIFOTYPE)],
    "unknown": [member("x", type=b"Z")],
    "setuid": [member("x", b"x", mode=0o4755)],
    "setgid": [member("x", b"x", mode=0o2755)],
    "twice": [member("x", b"1"), member("./x", b"2")],
    "twice-as-link": [member("x", b"1"), link("x", "y")],
    "file-as-folder": [member("x", b"1"), member("x/y", b"2")],
    "folder-as-file": [member("x/y", b"2"), member("x", b"1")],
    "backslash": [member("..\\x", b"1")],
    "escape-sequence": [member("\x1b[2Jx", b"1")],
    "newline": [member("a\nb", b"1")],
    "long-name": [member("x" * 300, b"1")],
    "deep": [member("d/" * 100 + "x", b"1")],
    "folder-out": [folder("../x")],
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("packed", ["gz", "xz"])
def test_hostile_tars_are_refused(tmp_path: Path, name: str, packed: str) -> None:  # F15
    before = outside(tmp_path)
    with pytest.raises(ArchiveError, match="failed to extract a: it ") as refused:
        run(tmp_path, tar([member("server", SCRIPT), *HOSTILE[name]], packed), "a")

    assert outside(tmp_path) == before
    assert str(refused.value).isprintable()


ZIPS = {
    "parent": ("../x", b"x", 0),
    "absolute": ("/etc/x", b"x", 0),
    "backslash": ("..\\x", b"x", 0),
    "link-out": ("x", b"../../y", LINK),
    "link-absolute": ("x", b"/etc/passwd", LINK),
    "device": ("x", b"", stat.S_IFCHR | 0o644),
    "setuid": ("x", b"x", 0o104755),
    "twice": ("server", b"x", 0),
    "file-as-folder": ("server/x", b"x", 0),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ZIPS)
def test_hostile_zips_are_refused(tmp_path: Path, name: str) -> None:  # F15
    before = outside(tmp_path)
    with pytest.raises(ArchiveError, match=r"failed to extract a\.zip: it "):
        run(tmp_path, zip_of([("server", SCRIPT, 0o100755), ZIPS[name]]), "a.zip")

    assert outside(tmp_path) == before


def test_an_encrypted_zip(tmp_path: Path) -> None:
    content = bytearray(zip_of([("server", SCRIPT, 0)]))
    content[content.index(b"PK\1\2") + 8] |= 1

    with pytest.raises(ArchiveError, match="'server' is encrypted"):
        run(tmp_path, bytes(content), "a.zip")


def test_ten_gigabytes_of_zeros(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"holds more than [0-9]+ MiB"):
        run(tmp_path, zeros_gz(10), "a.tar.gz")
    assert not (tmp_path / "root/zeros").exists()


@pytest.mark.parametrize(("claimed", "message"), [(3 << 30, "holds more than"), (10, "no whole zip")])
def test_zeros_in_a_zip(tmp_path: Path, claimed: int, message: str) -> None:
    """Honest of their size, and not."""
    with pytest.raises(ArchiveError, match=message):
        run(tmp_path, zeros_zip(gigabytes=3, files=4, claimed=claimed), "a.zip")
    assert sum(path.stat().st_size for path in (tmp_path / "root").iterdir()) <= limits.SMALL


def test_a_long_stream_of_nothing(tmp_path: Path) -> None:
    """Behind the end of the tar file."""
    with pytest.raises(ArchiveError, match="goes on for more than 16 MiB behind its end"):
        run(tmp_path, tar_of({"server": SCRIPT}) + gzip.compress(bytes(64 << 20)) * 20, "a.tar.gz")


def test_a_sparse_file(tmp_path: Path) -> None:
    """Ten gigabytes in one block."""
    info, _ = member("x", type=tarfile.GNUTYPE_SPARSE)
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % (10 << 30)  # its size when it is whole
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)

    with pytest.raises(ArchiveError, match="'x' is a sparse file"):
        run(tmp_path, gzip.compress(bytes(header) + bytes(1024)), "a.tar.gz")


def test_a_million_entries_in_a_tar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lemonpod.install.archive.tree.ENTRIES", 1000)
    with pytest.raises(ArchiveError, match="holds more than 1000 entries"):
        run(tmp_path, many_entries(1_000_000), "a.tar.gz")
    assert len(list((tmp_path / "root").iterdir())) <= 1000


@pytest.mark.parametrize("zip64", [True, False])
def test_a_million_entries_in_a_zip(tmp_path: Path, *, zip64: bool) -> None:
    """Whatever its end says: Python believes the length alone, so the list itself is counted."""
    with pytest.raises(ArchiveError, match=r"holds more than 50000 entries|holds a list of"):
        run(tmp_path, many_listed(1_000_000 if zip64 else 60_000, zip64=zip64), "a.zip")
    assert not list((tmp_path / "root").iterdir())


def test_a_zip_with_a_long_list(tmp_path: Path) -> None:
    end = b"PK\5\6" + bytes(4) + b"\1\0\1\0" + (33 << 20).to_bytes(4, "little") + bytes(6)
    with pytest.raises(ArchiveError, match="holds a list of 34603008 bytes"):
        run(tmp_path, b"PK\3\4" + bytes(33 << 20) + end, "a.zip")


def test_a_zip_with_a_list_of_its_end_alone(tmp_path: Path) -> None:
    end = b"PK\5\6" + bytes(4) + b"\1\0\1\0" + (200 << 20).to_bytes(4, "little") + bytes(6)
    with pytest.raises(ArchiveError, match="failed to extract"):
        run(tmp_path, b"PK\3\4" + end, "a.zip")


def test_a_header_that_fills_the_memory(tmp_path: Path) -> None:
    info, _ = member("././@LongLink", type=tarfile.GNUTYPE_LONGNAME)
    info.size = 8 << 30
    with pytest.raises(ArchiveError, match=r"has a header of [0-9]+ bytes"):
        run(
            tmp_path,
            gzip.compress(info.tobuf(tarfile.GNU_FORMAT)) + gzip.compress(bytes(1 << 20)) * 90,
            "a.tgz",
        )


def test_headers_within_headers(tmp_path: Path) -> None:
    header = member("x", type=tarfile.XHDTYPE)[0].tobuf(tarfile.USTAR_FORMAT)
    with pytest.raises(ArchiveError, match=r"it is no whole tar\.gz"):
        run(tmp_path, gzip.compress(header * 5000), "a.tar.gz")


def test_xz_that_takes_much_memory(tmp_path: Path) -> None:
    """How much is a byte of a block's header, for making such a file would take the memory too."""
    content = bytearray(lzma.compress(tar_of({"server": SCRIPT}, ""), preset=0))
    at = content.index(b"\x21\x01", 12)
    content[at + 2] = 40  # 4 GiB
    length = (content[12] + 1) * 4
    content[12 + length - 4 : 12 + length] = zlib.crc32(content[12 : 12 + length - 4]).to_bytes(4, "little")

    with pytest.raises(ArchiveError, match="Memory usage limit"):
        run(tmp_path, bytes(content), "a.tar.xz")


CUT: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda content: content[: len(content) // 2],
    "end": lambda content: content[:-4],
    "flipped": lambda content: content[:100] + bytes([content[100] ^ 255]) + content[101:],
    "beginning": lambda content: content[:20],
}


@pytest.mark.parametrize("how", CUT)
@pytest.mark.parametrize("packed", ["gz", "bz2", "xz"])
def test_damaged_tars(tmp_path: Path, how: str, packed: str) -> None:
    content = CUT[how](tar_of({"server": os.urandom(2000), "y": b"y"}, packed))

    with pytest.raises(ArchiveError, match="it is no whole tar"):
        run(tmp_path, content, "a.tar." + packed)


@pytest.mark.parametrize("how", ["half", "end", "flipped"])
def test_damaged_zips(tmp_path: Path, how: str) -> None:
    with pytest.raises(ArchiveError, match="it is no whole zip"):
        run(tmp_path, CUT[how](zip_of([("server", os.urandom(2000), 0)])), "a.zip")


def test_a_tar_that_stops_between_two_files(tmp_path: Path) -> None:
    plain = tar_of({"server": SCRIPT, "y": b"y"}, "")
    with pytest.raises(ArchiveError, match="it has no end"):
        run(tmp_path, gzip.compress(plain[:1024]), "a.tar.gz")


def test_a_tar_with_rubbish_in_the_middle(tmp_path: Path) -> None:
    """tarfile takes that for the end."""
    plain = tar_of({"server": SCRIPT, "y": b"y"}, "")
    with pytest.raises(ArchiveError, match="it has no end"):
        run(tmp_path, gzip.compress(plain[:1024] + b"rubbish!" * 64 + plain[1024:]), "a.tar.gz")


def test_what_is_named_as_an_archive_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"a.tar.gz: it is no tar.gz \(it begins with b'<html>"):
        run(tmp_path, b"<html>sign in", "a.tar.gz")


def test_other_archives_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"known are tar, tar.gz, tar.bz2, tar.xz, zip"):
        run(tmp_path, b"7z", "a.7z")


def test_what_rolls_forward_must_look_like_a_program(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="neither an archive nor an executable"):
        run(tmp_path, b"<html>sign in", "server", pinned=False)


def test_the_ratio_leaves_room_for_real_programs() -> None:
    assert limits.Budget.of(100 << 20).limit == 10000 << 20
    assert limits.Budget.of(1).limit == limits.SMALL


def outside(tmp_path: Path) -> set[str]:
    """What is around the folder that is unpacked into, and what archives here name."""
    around = {path.name for path in tmp_path.parent.iterdir()} | {path.name for path in tmp_path.iterdir()}
    return (around | {str(path) for path in map(Path, ("/etc/x", "/tmp/y", "/x")) if path.exists()}) - {
        "fetched",
        "root",
    }
