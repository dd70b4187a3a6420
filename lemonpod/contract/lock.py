"""The lock of the published schemas: what a contract version means must not change unseen (RFC section 11).

`schema/lock.json` pins each schema by the SHA-256 of its canonical form, so indentation and the order of
keys are free. Before a version is released a change needs a refreshed lock, which a reviewer sees;
after that its schema is frozen, and no refresh touches its entry.

    python -m lemonpod.contract.lock             says what does not agree
    python -m lemonpod.contract.lock --refresh   writes the entries that may change
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

Lock: TypeAlias = dict[str, dict[str, Any]]
"""`{"manifest.v1.json": {"sha256": ..., "released": false}}`"""

FOLDER: Final = Path(__file__).parent / "schema"
LOCK_NAME: Final = "lock.json"


def digest(schema: object) -> str:
    """The SHA-256 of the canonical form of `schema`."""
    canonical = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def disagreements(schemas: Mapping[str, object], lock: Lock) -> list[str]:
    """Every way in which the schemas are not what the lock says, and what to do about it."""
    found = []
    for name, entry in lock.items():
        if name not in schemas:
            found.append(f"{name} is locked but gone: every published version is kept")
        elif digest(schemas[name]) == entry["sha256"]:
            continue
        elif entry["released"]:
            found.append(f"{name} is released and must not change: put it back, or make a new major version")
        else:
            found.append(f"{name} is not what the lock says: have the change reviewed and refresh the lock")
    found += [f"{name} is not locked: refresh the lock" for name in schemas if name not in lock]
    return found


def refreshed(schemas: Mapping[str, object], lock: Lock) -> Lock:
    """The lock with the digests of today; released entries stay as they are."""
    unreleased: Lock = {
        name: {"sha256": digest(schema), "released": False} for name, schema in sorted(schemas.items())
    }
    return unreleased | {name: entry for name, entry in lock.items() if entry["released"]}


def read(folder: Path = FOLDER) -> tuple[dict[str, object], Lock]:
    """The schemas of `folder` by name, and their lock."""
    schemas = {
        path.name: json.loads(path.read_text("utf-8"))
        for path in sorted(folder.glob("*.json"))
        if path.name != LOCK_NAME
    }
    lock_file = folder / LOCK_NAME
    return schemas, json.loads(lock_file.read_text("utf-8")) if lock_file.exists() else {}


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    """Check the lock, after refreshing it if asked to; the exit code."""
    schemas, lock = read(folder)
    if "--refresh" in arguments:
        lock = refreshed(schemas, lock)
        (folder / LOCK_NAME).write_text(json.dumps(lock, indent=2) + "\n", "utf-8")
    found = disagreements(schemas, lock)
    sys.stderr.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
