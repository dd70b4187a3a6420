"""Builds Hugging Face caches."""

from __future__ import annotations

from pathlib import Path

from lemonpod.models.entry import CheckpointRef, Origin

SNAPSHOT = "abc123"


def make_repo(
    hub: Path,
    *files: str,
    repo: str = "org/repo",
    snapshot: str = SNAPSHOT,
    ref: str | None = None,
    prefix: str = "models--",
    links: bool = True,
) -> Path:
    """A repository with `files` in a snapshot, as links into blobs or as files; returns the snapshot."""
    folder = hub / (prefix + repo.replace("/", "--"))
    path = folder / "snapshots" / snapshot
    path.mkdir(parents=True)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "blobs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(snapshot if ref is None else ref)
    for index, name in enumerate(files):
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if links:
            blob = folder / "blobs" / f"{snapshot}{index}"
            blob.write_bytes(b"GGUF")
            file.symlink_to("../" * (len(Path(name).parts) + 1) + f"blobs/{blob.name}")
        else:
            file.write_bytes(b"GGUF")
    return path


def hub_ref(text: str) -> CheckpointRef:
    return CheckpointRef(text=text, origin=Origin.HUB)
