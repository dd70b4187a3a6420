"""Shipped manifests that run images: what they start, that the SDKs can say it, how images are pinned.

After a meant change: `python -m tests.contract.test_shipped_containers` writes the new command lines, to be
read in the diff.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from os.path import normpath
from pathlib import Path
from typing import Final

import pytest

from lemonpod.contract.inherit import resolve_extends
from lemonpod.contract.manifest import Manifest
from lemonpod.contract.parse import parse_manifest
from lemonpod.contract.vocabulary import Accelerator, JsonValue, Os
from lemonpod.drivers.docker_body import docker_create
from lemonpod.drivers.podman_body import podman_create
from lemonpod.host.facts import HostFacts
from lemonpod.launch.argv.flags import StopVerb
from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.container import ContainerSpec, Runtime
from lemonpod.launch.plan import ContainerLaunch, LaunchPlan
from lemonpod.launch.request import LaunchRequest, LaunchSettings
from lemonpod.launch.resolve import resolve
from lemonpod.models.entry import MAIN, CheckpointFile, CheckpointRef, Origin
from lemonpod.pin.images import images_of
from lemonpod.pin.scan import PinFinding, scan_file
from tests.factories import make_entry, make_facts

FOLDER: Final = Path(__file__).parents[2] / "manifests"
GOLDEN: Final = Path(__file__).parents[1] / "data" / "shipped"
HUB: Final = Path("/home/u/.cache/huggingface/hub")
MODEL: Final = HUB / "models--org--m" / "snapshots" / "0123abc" / "m.gguf"
PORT: Final = 8001
RUNTIMES: Final = ("podman", "docker")


def shipped() -> dict[str, Manifest]:
    """Those that run an image, with what they inherit."""
    parsed = [parse_manifest(json.loads(path.read_text("utf-8"))) for path in sorted(FOLDER.glob("*.json"))]
    resolved, dropped = resolve_extends({manifest.recipe: manifest for manifest in parsed})
    assert dropped == {}
    return {recipe: manifest for recipe, manifest in resolved.items() if images_of(manifest)}


MANIFESTS: Final = shipped()
BLOCKS: Final = [
    (recipe, accelerator)
    for recipe, manifest in MANIFESTS.items()
    for accelerator in manifest.platforms[Os.LINUX]
]
FAMILIES: Final = sorted({recipe.rpartition("-")[0] for recipe in MANIFESTS})

each_block = pytest.mark.parametrize(("recipe", "accelerator"), BLOCKS)
each_family = pytest.mark.parametrize("family", FAMILIES)


def plan_of(
    recipe: str,
    accelerator: Accelerator | None = None,
    *,
    main: Path = MODEL,
    hub: Path = HUB,
    labels: tuple[str, ...] = (),
    options: Mapping[str, JsonValue] | None = None,
    facts: HostFacts | None = None,
) -> LaunchPlan:
    """What a load would start; with `accelerator`, of that block."""
    ref = CheckpointRef(text=str(main), origin=Origin.LOCAL_PATH)
    device: dict[str, JsonValue] = {} if accelerator is None else {"device": accelerator.value}
    return resolve(
        LaunchRequest(
            manifest=MANIFESTS[recipe],
            entry=make_entry(recipe=recipe, checkpoints={MAIN: ref}, labels=labels),
            files={MAIN: CheckpointFile(ref=ref, path=main, problem=None)},
            overrides={**device, **(options or {})},
            facts=facts or make_facts(),
            port=PORT,
            settings=LaunchSettings(hf_cache=hub, cache_dir=Path("/home/u/.cache/lemonade")),
            env={},
        )
    )


def spec_of(plan: LaunchPlan) -> ContainerSpec:
    """The container of the plan; an error if only the runtime's own program could start it."""
    assert plan.by_cli is None
    assert isinstance(plan.spec, ContainerLaunch)
    return plan.spec.container


@pytest.mark.parametrize("recipe", MANIFESTS)
def test_the_command_lines_are_the_golden_ones(recipe: str) -> None:
    assert command_lines(recipe) == json.loads((GOLDEN / f"{recipe}.json").read_text("utf-8"))


def test_the_golden_command_lines_are_of_manifests_that_are_there() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(MANIFESTS)


@each_block
def test_a_block_is_said_to_the_engine_and_never_by_its_program(
    recipe: str, accelerator: Accelerator
) -> None:
    spec = spec_of(plan_of(recipe, accelerator))

    assert recipe.endswith(f"-{spec.runtime}")
    query, body = (docker_create if spec.runtime is Runtime.DOCKER else podman_create)(spec)
    assert json.dumps([query, body])


@each_block
def test_a_container_is_named_by_recipe_and_port_and_stopped_by_that_name(  # C21
    recipe: str, accelerator: Accelerator
) -> None:
    plan = plan_of(recipe, accelerator)
    spec = spec_of(plan)

    assert spec.name == f"lemonpod-{recipe}-{PORT}"
    assert spec.remove
    assert plan.stop == ContainerStop(verb=StopVerb.REMOVE, containers=(spec.name,), force=True)


@each_block
def test_an_engine_listens_on_the_loopback_address_alone(recipe: str, accelerator: Accelerator) -> None:
    spec = spec_of(plan_of(recipe, accelerator))

    assert str(spec.network_mode) == "host"
    assert not spec.ports
    assert "0.0.0.0" not in " ".join(spec.command)
    where = next(index for index, word in enumerate(spec.command) if word in {"--host", "--listen-ip"})
    assert spec.command[where + 1] == "127.0.0.1"


@each_block
def test_nothing_of_the_host_can_be_written(recipe: str, accelerator: Accelerator) -> None:
    spec = spec_of(plan_of(recipe, accelerator))

    assert not spec.privileged
    assert all("ro" in volume.options for volume in spec.volumes if volume.of_host)


@each_block
def test_a_link_of_the_hub_leads_to_its_blob_in_the_container(
    recipe: str, accelerator: Accelerator, tmp_path: Path
) -> None:  # C13, M03
    repository = tmp_path / "hub" / "models--org--m"
    snapshot = repository / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "blobs" / "feed").write_text("weights")
    link = snapshot / "m.gguf"
    link.symlink_to("../../blobs/feed")

    # An engine that takes a folder finds the same links in it.
    for main in (link, snapshot):
        spec = spec_of(plan_of(recipe, accelerator, main=main, hub=tmp_path / "hub"))
        assert str(main) in spec.command
        assert seen_inside(spec, str(link)).read_text() == "weights"


@each_block
def test_a_model_outside_the_hub_is_found_in_the_container(
    recipe: str, accelerator: Accelerator, tmp_path: Path
) -> None:
    (tmp_path / "hub").mkdir()
    model = tmp_path / "own" / "m.gguf"
    model.parent.mkdir()
    model.write_text("weights")
    spec = spec_of(plan_of(recipe, accelerator, main=model, hub=tmp_path / "hub"))

    assert str(model) in spec.command
    assert seen_inside(spec, str(model)).read_text() == "weights"


@pytest.mark.parametrize(
    ("recipe", "label", "flag"),
    [
        ("llama-podman", "embeddings", "--embeddings"),
        ("llama-docker", "reranking", "--reranking"),
        ("strix-halo-podman", "embeddings", "--embeddings"),
        ("vllm-podman", "embeddings", "--convert"),
        ("vllm-docker", "reranking", "--runner"),
    ],
)
def test_a_label_switches_its_mode_on(recipe: str, label: str, flag: str) -> None:
    assert flag in plan_of(recipe, labels=(label,)).spec.argv
    assert flag not in plan_of(recipe).spec.argv


@each_block
def test_own_arguments_go_to_the_engine(recipe: str, accelerator: Accelerator) -> None:
    options: dict[str, JsonValue] = {"args": ["--own", "1"]}
    spec = spec_of(plan_of(recipe, accelerator, options=options))

    assert spec.command[-2:] == ("--own", "1")


@pytest.mark.parametrize("family", ["llama", "whisper", "sd"])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_host_without_a_gpu_takes_the_cpu(family: str, runtime: str) -> None:
    plan = plan_of(f"{family}-{runtime}")

    assert plan.accelerator is Accelerator.CPU
    spec = spec_of(plan)
    assert not spec.devices
    assert not spec.device_requests


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_found_gpu_is_taken(runtime: str) -> None:
    for accelerator in (Accelerator.CUDA, Accelerator.ROCM, Accelerator.VULKAN):
        facts = make_facts(accelerators=(accelerator, Accelerator.CPU))
        assert plan_of(f"llama-{runtime}", facts=facts).accelerator is accelerator


def test_own_groups_are_kept_where_podman_opens_a_gpu_by_its_node() -> None:
    for recipe, accelerator in BLOCKS:
        spec = spec_of(plan_of(recipe, accelerator))
        nodes = [device for device in spec.devices if not device.is_cdi]
        assert spec.keep_groups is (bool(nodes) and spec.runtime is Runtime.PODMAN)


@each_family
def test_the_runtimes_differ_in_nothing_but_how_they_open_a_gpu(family: str) -> None:
    podman, docker = (MANIFESTS[f"{family}-{runtime}"] for runtime in RUNTIMES)

    for field in (
        "api_contract_version",
        "capabilities",
        "capability_enable_args",
        "custom_options",
        "default_accelerator",
        "endpoints",
        "probe",
        "recipe_options",
        "reserved_args",
    ):
        assert getattr(podman, field) == getattr(docker, field)
    assert podman.platforms[Os.LINUX].keys() == docker.platforms[Os.LINUX].keys()
    for accelerator in podman.platforms[Os.LINUX]:
        one, other = (spec_of(plan_of(f"{family}-{runtime}", accelerator)) for runtime in RUNTIMES)
        for field in ("image", "entrypoint", "command", "network_mode", "ipc", "init", "env", "healthcheck"):
            assert getattr(one, field) == getattr(other, field), field
        sources = [[volume for volume in spec.volumes if volume.of_host] for spec in (one, other)]
        assert sources[0] == sources[1]


def test_the_readme_says_of_each_image_whether_it_is_pinned_or_why_not() -> None:
    readme = (FOLDER / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| (yes|no)\b[,:] ([^|]+) \|$", readme, re.MULTILINE)
    said = {image: answer == "yes" for image, answer, _ in rows}

    assert len(rows) == len(said)
    assert said == {name_and_tag(finding): finding.pinned for finding in findings()}


def test_an_image_has_one_digest() -> None:
    by_name: dict[str, set[str | None]] = {}
    for finding in findings():
        by_name.setdefault(name_and_tag(finding), set()).add(finding.digest)

    assert [name for name, digests in by_name.items() if len(digests) > 1] == []


def findings() -> list[PinFinding]:
    found = [finding for recipe in MANIFESTS for finding in scan_file(FOLDER / f"{recipe}.json").findings]
    assert [finding for finding in found if finding.problem] == []
    return found


def name_and_tag(finding: PinFinding) -> str:
    assert finding.image is not None
    return finding.image.partition("@")[0]


def seen_inside(spec: ContainerSpec, path: str) -> Path:
    """The file of the host that is at `path` in the container, where links are read as in the container."""
    for _ in range(8):
        host = mounted_at(spec, path)
        if not host.is_symlink():
            return host
        path = normpath(Path(path).parent / host.readlink())
    raise AssertionError(f"too many links at {path}")


def mounted_at(spec: ContainerSpec, path: str) -> Path:
    of_host = [volume for volume in spec.volumes if volume.of_host]
    above = [volume for volume in of_host if Path(path).is_relative_to(volume.target)]
    assert above, f"{path} is not mounted"
    deepest = max(above, key=lambda volume: len(Path(volume.target).parts))
    assert deepest.source is not None
    return Path(deepest.source) / Path(path).relative_to(deepest.target)


def command_lines(recipe: str) -> dict[str, list[str]]:
    return {
        accelerator.value: list(plan_of(recipe, accelerator).spec.argv)
        for accelerator in MANIFESTS[recipe].platforms[Os.LINUX]
    }


def rewrite() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for recipe in MANIFESTS:
        text = json.dumps(command_lines(recipe), indent=2, ensure_ascii=False)
        (GOLDEN / f"{recipe}.json").write_text(text + "\n")


if __name__ == "__main__":
    rewrite()
