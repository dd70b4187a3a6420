"""The card that a host's architecture is of is the one that engines are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lemonpod.host.choice import with_gpus
from lemonpod.host.facts import HostFacts
from lemonpod.launch.devices import visible_devices
from lemonpod.launch.resolve import resolve
from tests.factories import make_facts
from tests.hardware import facts_of, machine
from tests.unit.launch.requests import make_manifest, make_request

TOKENS = ("rocm_arch", "cuda_arch", "hip_visible_devices", "rocr_visible_devices", "cuda_visible_devices")


def values_on(facts: HostFacts, accelerator: str, **options: Any) -> dict[str, str]:
    args = [f"{{{name}}}" for name in TOKENS]
    block = {"command": "engine", "args": args}
    manifest = make_manifest(platforms={"linux": {accelerator: block}})
    plan = resolve(make_request(manifest, facts=facts, options=options))
    return dict(zip(TOKENS, plan.spec.argv[1:], strict=True))


@pytest.mark.parametrize(
    "name", ["rx7900xtx-raphael-igpu", "strix-halo-gfx1151", "rtx4090-proc", "empty-sys"]
)
def test_one_gpu_is_the_first_of_its_kind(name: str) -> None:
    values = values_on(facts_of(machine(name)), "cpu")

    assert {values[token] for token in TOKENS if token.endswith("devices")} == {"0"}


def test_a_card_that_rocm_counts_second() -> None:  # G03
    facts = facts_of(machine("rx7900xtx-raphael-igpu"))
    card, integrated = facts.gpus
    facts = with_gpus(facts, [replace(card, hip_index=1), replace(integrated, hip_index=0)])

    values = values_on(facts, "rocm")

    assert (values["rocm_arch"], values["hip_visible_devices"]) == ("gfx1100", "1")
    assert values["rocr_visible_devices"] == "1"


def test_cards_of_two_makers_have_each_its_own_variable() -> None:  # G13
    amd, nvidia = facts_of(machine("strix-halo-gfx1151")), facts_of(machine("rtx4090-proc"))
    facts = with_gpus(amd, amd.gpus + nvidia.gpus)

    values = values_on(facts, "rocm")

    assert (values["rocm_arch"], values["cuda_arch"]) == ("gfx1151", "sm_89")
    # Never empty: an empty CUDA_VISIBLE_DEVICES hides AMD's GPUs from ROCm as well.
    assert (values["hip_visible_devices"], values["cuda_visible_devices"]) == ("0", "0")


def test_unlike_cards_of_nvidias_are_told_apart_by_their_uuid() -> None:  # G13
    new, old = facts_of(machine("rtx4090-proc")), facts_of(machine("aspeed-bmc-a100"))
    facts = with_gpus(new, old.gpus + new.gpus)

    values = values_on(facts, "cuda")

    assert (values["cuda_arch"], values["cuda_visible_devices"]) == ("sm_89", new.gpus[0].uuid)


def test_somebody_who_chooses_is_asked_first() -> None:
    facts = facts_of(machine("rx7900xtx-raphael-igpu"))
    card, integrated = facts.gpus
    facts = with_gpus(facts, [replace(card, hip_index=1), replace(integrated, hip_index=0)])

    assert values_on(facts, "rocm", hip_visible_devices="0")["hip_visible_devices"] == "0"


def test_a_default_in_the_manifest_is_nearer_than_the_host() -> None:
    facts = facts_of(machine("rx7900xtx-raphael-igpu"))
    facts = with_gpus(facts, [replace(gpu, hip_index=1 - (gpu.hip_index or 0)) for gpu in facts.gpus])
    block = {"command": "engine", "args": ["{custom:hip_visible_devices:-7}"]}
    manifest = make_manifest(platforms={"linux": {"rocm": block}})

    plan = resolve(make_request(manifest, facts=facts))

    assert plan.spec.argv[1] == "7"
    assert "hip_visible_devices" not in plan.options


def test_a_gpu_that_this_user_may_not_open_is_not_named() -> None:
    own = machine("two-kinds-node-order")
    own["user"]["groups"] = []

    assert visible_devices(facts_of(own)) == {}
    assert visible_devices(make_facts(rocm_arch="gfx1151")) == {}


def test_an_alias_is_for_the_card_that_the_block_is_for() -> None:  # G13
    amd, nvidia = facts_of(machine("strix-halo-gfx1151")), facts_of(machine("rtx4090-proc"))
    facts = with_gpus(amd, amd.gpus + nvidia.gpus)
    block = {"command": "engine", "args": ["{arch_alias}"]}
    aliases = {"gfx1151": "strix-halo", "sm_89": "ada"}
    for accelerator, alias in (("rocm", "strix-halo"), ("cuda", "ada"), ("vulkan", "ada")):
        manifest = make_manifest(platforms={"linux": {accelerator: block}}, arch_aliases=aliases)
        assert resolve(make_request(manifest, facts=facts)).spec.argv[1] == alias
