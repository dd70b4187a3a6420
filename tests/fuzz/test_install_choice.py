"""What is installed is what is launched: over any manifest and any host, both choose the same."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.parse import parse_manifest
from lemonpod.contract.vocabulary import Accelerator, Os
from lemonpod.errors import InstallError, NotInstalledError
from lemonpod.host.facts import HostFacts
from lemonpod.install.choice import Choice, choose
from lemonpod.launch.installed import Install, Installs, Receipt, all_artifacts, artifact_of, installed
from lemonpod.launch.plan import ProcessSpec
from lemonpod.launch.resolve import resolve
from lemonpod.launch.select import select_block
from tests.factories import make_document, make_facts
from tests.fakes.programs import FakePrograms
from tests.unit.launch.requests import make_request

ARCHS = ("gfx1100", "gfx1150", "gfx1151", "sm_86", "sm_90")
KEYS = (*ARCHS, "gfx115*", "gfx11??", "sm_*", "*")
ACCELERATORS = st.sampled_from(list(Accelerator))

provenance = st.fixed_dictionaries(
    {},
    optional={
        "source": st.sampled_from([f"https://example.invalid/{name}.tar.gz" for name in "abc"]),
        "sha256": st.sampled_from([f"sha256:{digit * 64}" for digit in "123"]),
        "version_policy": st.sampled_from(["pinned", "roll_forward"]),
    },
)
binaries = st.sampled_from(["server", "other-server"])
overrides = st.builds(
    lambda said, more: {**said, **more}, provenance, st.fixed_dictionaries({}, optional={"binary": binaries})
)
blocks = st.builds(
    lambda said, binary, arch: {**said, "binary": binary, **({"arch": arch} if arch else {})},
    provenance,
    binaries,
    st.dictionaries(st.sampled_from(KEYS), overrides, max_size=3),
)
hosts = st.builds(
    lambda accelerators, rocm, cuda: make_facts(
        accelerators=tuple(accelerators), rocm_arch=rocm, cuda_arch=cuda
    ),
    st.lists(ACCELERATORS, unique=True),
    st.sampled_from([None, *ARCHS[:3]]),
    st.sampled_from([None, *ARCHS[3:]]),
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    document: dict[str, Any] = make_document(
        variant_of="llamacpp",
        platforms={"linux": draw(st.dictionaries(ACCELERATORS, blocks, min_size=1, max_size=3))},
        default_accelerator=draw(st.none() | ACCELERATORS),
        **draw(provenance),
    )
    if any("source" in level for level in _levels(document)):
        document.setdefault("sha256", f"sha256:{'0' * 64}")  # else some of it would have none
    return document


manifests = documents().map(parse_manifest)


def _levels(document: dict[str, Any]) -> list[dict[str, Any]]:
    found = list(document["platforms"]["linux"].values())
    return [document, *found, *(one for block in found for one in block.get("arch", {}).values())]


def everything_installed(manifest: Manifest) -> Installs:
    """Each artifact in a folder of its own, with every executable that anybody may ask for."""
    names = MappingProxyType({"server": "bin/server", "other-server": "bin/other-server"})
    return Installs(
        installs=tuple(
            Install(
                number=number,
                folder=Path(f"/external/{number}"),
                receipt=Receipt(
                    source=artifact.source, sha256=artifact.sha256 or f"sha256:{number:064}", binaries=names
                ),
            )
            for number, artifact in enumerate(dict.fromkeys(all_artifacts(manifest, Os.LINUX)), 1)
        )
    )


class Everything(FakePrograms):
    """A machine on which every path is a program."""

    def usable(self, path: Path) -> bool:
        return True


def chosen(manifest: Manifest, facts: HostFacts, **said: str | None) -> Choice | None:
    try:
        return choose(manifest, facts, **said)
    except InstallError as error:
        event(error.message.partition(";")[0])
        return None


@settings(max_examples=300)
@given(manifests, hosts, st.none() | ACCELERATORS)
def test_installed_is_what_is_launched(
    manifest: Manifest, facts: HostFacts, accelerator: Accelerator | None
) -> None:
    """Whatever a command accepts for this host, a launch here takes the very same."""
    choice = chosen(manifest, facts, accelerator=accelerator)
    if choice is None:
        return
    selection = select_block(manifest, facts, accelerator)
    assert (choice.selection.path, choice.selection.override) == (selection.path, selection.override)
    assert choice.artifact == artifact_of(manifest, selection.block)
    if choice.artifact is None:
        return
    installs = everything_installed(manifest)
    install = installs.of(choice.artifact)
    assert install is not None
    assert choice.artifact.sha256 in (None, install.receipt.sha256)

    options = {} if accelerator is None else {"device": accelerator.value}
    request = make_request(manifest, facts=facts, installs=installs, options=options, programs=Everything())
    plan = resolve(request)
    assert plan.block_path == choice.selection.path
    assert plan.accelerator == choice.selection.accelerator
    assert plan.selection[: len(choice.selection.lines)] == choice.selection.lines
    assert isinstance(plan.spec, ProcessSpec)
    assert plan.spec.held == install.folder
    assert plan.spec.argv[0] == str(install.executable(selection.block.binary or ""))


@settings(max_examples=200)
@given(manifests, hosts, ACCELERATORS, st.sampled_from(ARCHS))
def test_what_is_said_by_hand_is_what_such_a_host_launches(
    manifest: Manifest, facts: HostFacts, accelerator: Accelerator, arch: str
) -> None:
    choice = chosen(manifest, facts, accelerator=accelerator, arch=arch)
    if choice is None:
        return
    there = make_facts(accelerators=facts.accelerators, rocm_arch=arch, cuda_arch=arch)
    selection = select_block(manifest, there, accelerator)
    assert (choice.selection.path, choice.selection.override) == (selection.path, selection.override)
    assert choice.artifact == artifact_of(manifest, selection.block)


@settings(max_examples=200)
@given(manifests, hosts)
def test_nothing_else_is_launched_than_what_is_named(manifest: Manifest, facts: HostFacts) -> None:
    """With another artifact alone a launch fails, and names a command that mends it."""
    selection = select_block(manifest, facts, None)
    artifact = artifact_of(manifest, selection.block)
    if artifact is None:
        return
    everything = everything_installed(manifest)
    right = everything.of(artifact)
    fitting = [one for one in everything.installs if Installs(installs=(one,)).of(artifact)]
    others = Installs(installs=tuple(one for one in everything.installs if one not in fitting))
    assert right in fitting
    try:
        installed(manifest, selection, artifact, others)
    except NotInstalledError as error:
        words = shlex.split(error.hint or "")
        accelerator = words[words.index("--accelerator") + 1]
        arch = words[words.index("--arch") + 1] if "--arch" in words else None
        mended = chosen(manifest, facts, accelerator=accelerator, arch=arch)
        assert mended is not None
        assert mended.artifact == artifact
    else:
        raise AssertionError("it took what the manifest does not name")
