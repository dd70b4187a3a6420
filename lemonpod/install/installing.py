"""From an address to a new install: fetched, compared, unpacked aside, put in place in one step."""

from __future__ import annotations

import errno
import hmac
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote, urlsplit

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.vocabulary import Os
from lemonpod.errors import DownloadError, InstallError
from lemonpod.install import place
from lemonpod.install.archive.unpack import unpack
from lemonpod.install.choice import Choice
from lemonpod.install.fetch import Report, fetch
from lemonpod.install.partial import Partial
from lemonpod.inventory.installed import find_installs
from lemonpod.launch.installed import FILES, Artifact, Receipt, all_artifacts, artifact_of, install_folder

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def install(choice: Choice, os: Os, cache_dir: Path, *, report: Report) -> Path:
    """Install what was chosen and return the executable's path; raises InstallError and OSError.

    Nothing that is there is touched before the new install is in place. After that, what no block of the
    manifest names any more is removed, unless an engine runs from it.
    """
    artifact, binary = choice.artifact, choice.selection.block.binary
    if artifact is None or binary is None:
        raise InstallError(f"{choice.place} names nothing to install")
    folder = install_folder(cache_dir, choice.manifest.recipe)
    with place.locked(folder):
        partial = Partial(folder, artifact.source)
        try:
            sha256 = _fetched(artifact, partial, report)
            with place.staged(folder) as stage:
                binaries = {binary, *_binaries(choice.manifest, os, artifact)}
                name = _name(artifact.source)
                found = unpack(
                    partial.path, name, stage / FILES, sorted(binaries), pinned=bool(artifact.sha256)
                )
                if binary not in found:
                    raise InstallError(
                        f"no binary found in installed artifact: {name} holds no file '{binary}'"
                    )
                receipt = Receipt(source=artifact.source, sha256=sha256, binaries=MappingProxyType(found))
                new = place.put_in_place(stage, folder, receipt)
        except OSError as error:
            if error.errno in _FULL:
                partial.discard()
                raise InstallError(
                    f"no room is left in {folder}: {error.strerror}; nothing was installed",
                    hint="make room, or name another folder with --cache-dir",
                ) from error
            raise
        except InstallError as error:
            if not isinstance(error, DownloadError):
                partial.discard()  # it would be refused once more
            raise
        place.point_to(new, binary)
        installs = find_installs(folder)
        place.sweep(folder, [new, *(installs.of(one) for one in all_artifacts(choice.manifest, os))])
        path = new.executable(binary)
        assert path is not None  # noqa: S101 - it was found above
        return path


def _fetched(artifact: Artifact, partial: Partial, report: Report) -> str:
    """Have the whole artifact in `partial`, as it must be; its digest, in the notation of manifests."""
    for _ in range(2):
        fetch(artifact.source, partial, pinned=artifact.sha256 is not None, report=report)
        digest, joined = f"sha256:{partial.sha256()}", partial.joined
        if artifact.sha256 is None or same_digest(digest, artifact.sha256):
            return digest
        partial.discard()
        if not joined:  # else of two files, neither of which need be wrong
            break
    raise DownloadError(
        f"download failed: {artifact.source} is not what the manifest pins: it is {digest}, and not "
        f"{artifact.sha256}",
        hint="nothing was unpacked; the author has to say which of the two is right",
    )


def same_digest(one: str, other: str) -> bool:
    """Whether two digests are one, with or without `sha256:`, in time that tells nothing."""
    return hmac.compare_digest(*(text.lower().removeprefix("sha256:").encode() for text in (one, other)))


def _binaries(manifest: Manifest, os: Os, artifact: Artifact) -> Iterator[str]:
    """The executables that any block runs from the artifact."""
    for block in manifest.platforms.get(os, {}).values():
        for one in (block, *(block.merged_with(override) for override in block.arch.values())):
            if one.binary is not None and artifact_of(manifest, one) == artifact:
                yield one.binary


def _name(source: str) -> str:
    """What the file is called where it comes from."""
    return PurePosixPath(unquote(urlsplit(source).path)).name or "the artifact"
