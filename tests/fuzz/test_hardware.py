"""Whatever a machine's files are, detection ends with facts: nothing is raised, the processor is there."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.errors import ConfigError
from lemonpod.host.capture import Recorder, captured
from lemonpod.host.choice import LOOKED_FOR, found, missing
from lemonpod.host.detect import detect
from lemonpod.host.document import document
from lemonpod.host.facts import HostFacts
from lemonpod.host.nvidia_smi import answers, completed
from lemonpod.host.tree import Folder
from tests.hardware import FILES

MACHINES: list[dict[str, Any]] = [json.loads(file.read_bytes()) for file in FILES]
PLACES = sorted({path for one in MACHINES for part in ("files", "links") for path in one[part]})

fuzz = settings(max_examples=100)

numbers = st.integers(-(1 << 70), 1 << 70).map(str) | st.integers(0, 1 << 70).map(hex)
lines = st.sampled_from(
    sorted({line for one in MACHINES for text in one["files"].values() for line in text.splitlines()})
)
rubbish = st.binary(max_size=40).map(lambda data: data.decode("latin-1"))
texts = numbers | rubbish | st.lists(lines | rubbish, max_size=6).map("\n".join) | st.just("9" * 5000)
targets = st.sampled_from([*PLACES, "..", ".", "", "../../../..", "self", "/"]) | rubbish


@st.composite
def broken_machines(draw: st.DrawFn) -> dict[str, Any]:
    """A machine some of whose files are gone, forbidden, of another machine, or rubbish."""
    own: dict[str, Any] = dict(draw(st.sampled_from(MACHINES)))
    for part in ("files", "links"):
        own[part] = dict(own[part])
        entries = sorted(own[part])
        for path in draw(st.lists(st.sampled_from(entries or PLACES), max_size=6)):
            own[part].pop(path, None)
    for path in draw(st.lists(st.sampled_from(sorted(own["files"]) or PLACES), max_size=8)):
        own["files"][path] = draw(texts)
    for path in draw(st.lists(st.sampled_from(PLACES), max_size=4)):
        own["links"][path] = draw(targets)
    other = draw(st.sampled_from(MACHINES))
    if draw(st.booleans()):
        own["files"] |= other["files"]
        own["links"] |= other["links"]
        own["nodes"] = [*own["nodes"], *({**node, "gid": 0} for node in other["nodes"])]
    own["unreadable"] = draw(st.lists(st.sampled_from(PLACES), max_size=4))
    return own


def check(facts: HostFacts) -> None:
    assert facts.accelerators[-1] is Accelerator.CPU
    assert len(set(facts.accelerators)) == len(facts.accelerators)
    for accelerator in facts.accelerators:
        assert found(facts, accelerator)
    for accelerator in LOOKED_FOR:
        facts.arch_of(accelerator)
        if accelerator not in facts.accelerators and accelerator is not Accelerator.NPU:
            assert missing(facts, accelerator)
    for gpu in facts.gpus:
        assert gpu.memory_bytes is None or gpu.memory_bytes > 0
        assert gpu.offers(Accelerator.GPU) is gpu.usable
        assert str(gpu)


@fuzz
@given(broken_machines())
def test_a_broken_machine(own: dict[str, Any]) -> None:  # G11
    tree = Recorder(document(own))

    facts = detect(tree)

    check(facts)
    again = detect(document(json.loads(json.dumps(captured(tree)))))
    assert again.accelerators == facts.accelerators
    assert [(gpu.pci_address, gpu.arch) for gpu in again.gpus] == [
        (gpu.pci_address, gpu.arch) for gpu in facts.gpus
    ]


@fuzz
@given(
    st.dictionaries(st.sampled_from(PLACES), st.binary(max_size=60), max_size=12),
    st.dictionaries(st.sampled_from(PLACES), st.sampled_from([*PLACES, "..", "."]), max_size=12),
)
def test_a_folder_of_rubbish(files: dict[str, bytes], links: dict[str, str]) -> None:
    with TemporaryDirectory() as name:
        for path, content in files.items():
            place(Path(name), path, lambda target, content=content: target.write_bytes(content))
        for path, link in links.items():
            place(Path(name), path, lambda target, link=link: target.symlink_to(link))

        check(detect(Folder(Path(name))))


def place(root: Path, path: str, make: Any) -> None:
    target = root / path[1:]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        make(target)
    except OSError:  # below a file or a link of before
        return


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@fuzz
@given(st.sampled_from(MACHINES), st.dictionaries(st.sampled_from(sorted(MACHINES[0])), values, max_size=3))
def test_a_document_that_is_none(own: dict[str, Any], changes: dict[str, Any]) -> None:
    try:
        tree = document(own | changes)
    except ConfigError:
        return
    check(detect(tree))


@fuzz
@given(
    st.sampled_from(MACHINES), st.lists(st.lists(texts | st.just("00000000:01:00.0"), max_size=7), max_size=3)
)
def test_a_tool_that_says_anything(own: dict[str, Any], rows: list[list[str]]) -> None:
    output = "\n".join(", ".join(row) for row in rows)

    check(completed(detect(document(own)), answers(output)))
