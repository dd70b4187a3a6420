"""Archives as people make them, and as nobody should."""

from __future__ import annotations

import gzip
import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from functools import cache

SCRIPT = b"#!/bin/sh\necho run\n"


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """A member of a tar file; a file of mode 0755 unless `fields` say otherwise."""
    info = tarfile.TarInfo(name)
    info.mode, info.size = 0o755, len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def tar(members: Iterable[tuple[tarfile.TarInfo, bytes]], packed: str = "gz") -> bytes:
    """A tar file of these members, in this order."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=f"w:{packed}") as archive:  # type: ignore[call-overload]
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def tar_of(files: Mapping[str, bytes], packed: str = "gz") -> bytes:
    return tar((member(name, content) for name, content in files.items()), packed)


def zip_of(entries: Iterable[tuple[str, bytes, int]]) -> bytes:
    """A zip file; a mode of 0 is none, as other systems write it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in entries:
            info = zipfile.ZipInfo(name)
            info.create_system = 3 if mode else 0
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return file.getvalue()


def zeros_gz(gigabytes: int) -> bytes:
    """A tar.gz of one file of zeros, made at once: gzip streams may follow each other."""
    info = tarfile.TarInfo("zeros")
    info.size, info.mode = gigabytes << 30, 0o644
    block = gzip.compress(bytes(64 << 20), 9)
    return gzip.compress(info.tobuf()) + block * (gigabytes * 16) + gzip.compress(bytes(1024))


def zeros_zip(*, gigabytes: int, files: int, claimed: int) -> bytes:
    """A zip of files of zeros that say of themselves to have `claimed` bytes."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    once = deflater.compress(bytes(64 << 20)) + deflater.flush(zlib.Z_FULL_FLUSH)
    data = once * (gigabytes * 16) + deflater.flush()
    body, listed = b"", b""
    for number in range(files):
        name = f"z{number}".encode()
        common = struct.pack("<5H3L2H", 20, 0, 8, 0, 0, 0, len(data), claimed, len(name), 0)
        listed += (
            b"PK\1\2" + struct.pack("<H", 20) + common + struct.pack("<3H2L", 0, 0, 0, 0, len(body)) + name
        )
        body += b"PK\3\4" + common + name + data
    end = struct.pack("<4H2LH", 0, 0, files, files, len(listed), len(body), 0)
    return body + listed + b"PK\5\6" + end


@cache
def many_entries(count: int) -> bytes:
    """A tar.gz of so many empty files, each with a name of its own."""
    file = io.BytesIO()
    header = bytearray(tarfile.TarInfo("f0000000").tobuf(tarfile.USTAR_FORMAT))
    digits, checksum = slice(1, 8), slice(148, 156)
    rest = sum(header) - sum(header[digits]) - sum(header[checksum]) + 8 * ord(" ")
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1) as packed:
        for begin in range(0, count, 1000):
            entries = []
            for number in range(begin, min(begin + 1000, count)):
                header[digits] = b"%07d" % number
                header[checksum] = b"%06o\0 " % (rest + sum(header[digits]))
                entries.append(bytes(header))
            packed.write(b"".join(entries))
        packed.write(bytes(1024))
    return file.getvalue()


def many_listed(count: int, *, zip64: bool) -> bytes:
    """A zip whose list has so many entries, of which its end names one."""
    local = b"PK\3\4" + bytes(26)
    listed = b"".join(
        b"PK\1\2" + bytes(24) + struct.pack("<H", 7) + bytes(16) + b"%07d" % number for number in range(count)
    )
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 0 if zip64 else len(listed), len(local), 0)
    if zip64:
        record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(listed), len(local))
        end = record + struct.pack("<4sLQL", b"PK\6\7", 0, len(local) + len(listed), 1) + end
    return local + listed + end


LINK = stat.S_IFLNK | 0o777
