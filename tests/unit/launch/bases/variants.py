"""Requests for variants of built-in backends, and for these themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.launch.bases.table import BASES, BUILTIN_MANIFESTS
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.request import LaunchRequest
from lemonpod.launch.resolve import resolve
from tests.factories import make_facts
from tests.fakes.programs import FakePrograms
from tests.unit.launch.requests import checkpoint, make_manifest, make_request

ALL: Final = tuple(Accelerator)
FORK: Final = "/cache/external/fork/"


def files(**named: str) -> dict[str, Any]:
    """Checkpoints and where they are."""
    return {name: checkpoint(f"org/repo:{name}", Path(path)) for name, path in named.items()}


def variant_request(
    base: str,
    accelerator: str = "cpu",
    *,
    block: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
    **request: Any,
) -> LaunchRequest:
    """A variant `fork` of the backend, installed, on a machine with every accelerator."""
    program = BASES[base].program
    document = make_manifest(
        recipe="fork",
        variant_of=base,
        **{
            "capabilities": [str(name) for name in BASES[base].capabilities],
            "platforms": {"linux": {accelerator: {"binary": program, **(block or {})}}},
            **(manifest or {}),
        },
    )
    facts = make_facts(accelerators=ALL, rocm_arch="gfx1151" if accelerator == "rocm" else None)
    given = {"files": files(main="/m.gguf"), "facts": facts, "programs": FakePrograms(files=[FORK + program])}
    return make_request(document, **(given | request))


def builtin_request(base: str, **request: Any) -> LaunchRequest:
    """The backend itself, whose program is on the PATH of a machine with a CPU alone."""
    program = BASES[base].program
    given = {"files": files(main="/m.gguf"), "programs": FakePrograms(path={program: f"/usr/bin/{program}"})}
    return make_request(BUILTIN_MANIFESTS[base], **(given | request))


def planned(request: LaunchRequest) -> LaunchPlan:
    return resolve(request)


def line(request: LaunchRequest) -> str:
    """The command line, without what would need quotes."""
    return " ".join(resolve(request).spec.argv)
