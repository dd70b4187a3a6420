"""`/system-info` of machines with more than a processor: devices in Lemonade's shape, and what cannot run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lemonpod.engine.api import ExitStatus
from lemonpod.gateway.machine_api import describe_machine
from lemonpod.host.choice import with_gpus
from tests.hardware import FILES, facts_of, machine
from tests.unit.gateway.test_api import answer
from tests.unit.gateway.world import RECIPE, Starter
from tests.waiting import until

BLOCK = {"command": "engine", "args": []}


def devices_of(name: str) -> dict[str, Any]:
    devices: dict[str, Any] = describe_machine(facts_of(machine(name)))["devices"]
    return devices


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_machine_has_the_keys_that_clients_demand(file: Any) -> None:
    devices = devices_of(file.stem)

    assert {"cpu", "amd_gpu", "nvidia_gpu", "amd_npu"} <= devices.keys()
    assert devices["cpu"]["family"] in ("x86_64", "arm64")
    assert {"name", "available", "family"} <= devices["amd_npu"].keys()
    for gpu in (*devices["amd_gpu"], *devices["nvidia_gpu"], *devices.get("intel_gpu", [])):
        assert {"name", "available", "family"} <= gpu.keys()
        assert gpu["name"]
        assert None not in gpu.values()  # what is unknown is left out: null is no number
        assert gpu["available"] is ("error" not in gpu)


def test_amds_card_and_the_processors_own_gpu() -> None:
    card, integrated = devices_of("rx7900xtx-raphael-igpu")["amd_gpu"]

    assert (card["family"], card["integrated"], card["vram_gb"]) == ("gfx1100", False, 23.98)
    assert (integrated["family"], integrated["integrated"]) == ("gfx1036", True)
    assert (integrated["vram_gb"], integrated["virtual_mem_gb"]) == (0.5, 15.25)


def test_nvidias_gpu() -> None:
    (gpu,) = devices_of("rtx4090-proc")["nvidia_gpu"]

    assert gpu == {
        "name": "NVIDIA GeForce RTX 4090",
        "available": True,
        "integrated": False,
        "family": "sm_89",
        "index": 0,
        "uuid": "GPU-6a3c2f41-8d20-53b7-9f0e-71c4e82d9b16",
        "compute_capability": "8.9",
        "driver_version": "570.195.03",
    }


@pytest.mark.parametrize(("name", "capability"), [("aspeed-bmc-a100", "8.0"), ("h200-x4-vm", "9.0")])
def test_a_capability_has_its_point_before_the_last_digit(name: str, capability: str) -> None:
    assert {gpu["compute_capability"] for gpu in devices_of(name)["nvidia_gpu"]} == {capability}


def test_npus() -> None:
    assert devices_of("krackan-npu-amdxdna")["amd_npu"] == {
        "name": "RyzenAI-npu6",
        "available": True,
        "family": "XDNA2",
    }
    assert devices_of("core-ultra-155h-npu")["amd_npu"]["available"] is False  # it is Intel's


def test_a_gpu_that_may_not_be_used_says_why() -> None:
    (gpu,) = devices_of("container-kfd-eperm")["amd_gpu"]

    assert (gpu["available"], gpu["error"]) == (False, "no /dev/kfd and no /dev/dri/renderD128 here")


async def test_a_recipe_for_a_gpu_that_is_not_there_says_which(start: Starter) -> None:
    world = await start(answer, platforms={"linux": {"rocm": BLOCK}})

    backend = (await world.get("/v1/system-info")).json["recipes"][RECIPE]["backends"][RECIPE]

    assert backend["state"] == "unsupported"
    assert backend["message"] == "rocm does not work here: no AMD GPU with its driver was found"


async def test_a_recipe_for_a_gpu_that_may_not_be_opened_asks_for_somebody_to_open_it(start: Starter) -> None:
    facts = facts_of(machine("container-kfd-eperm"))
    world = await start(answer, facts=facts, platforms={"linux": {"rocm": BLOCK}})

    backend = (await world.get("/v1/system-info")).json["recipes"][RECIPE]["backends"][RECIPE]

    assert backend["state"] == "action_required"
    assert "no /dev/kfd" in backend["message"]


async def test_a_recipe_without_an_alias_for_this_gpu(start: Starter) -> None:
    block = {"command": "engine", "args": ["{arch_alias}"]}
    world = await start(
        answer,
        facts=facts_of(machine("rx9070xt-gfx1201")),
        platforms={"linux": {"rocm": block}},
        arch_aliases={"gfx1151": "strix-halo"},
    )

    info = (await world.get("/v1/system-info")).json

    backend = info["recipes"][RECIPE]["backends"][RECIPE]
    assert backend["state"] == "unsupported"
    assert backend["message"] == "no entry of arch_aliases is for this host, which has gfx1201"
    assert [gpu["family"] for gpu in info["devices"]["amd_gpu"]] == ["gfx1201"]


async def test_a_recipe_that_this_host_is_for(start: Starter) -> None:
    amd, nvidia = facts_of(machine("strix-halo-gfx1151")), facts_of(machine("rtx4090-proc"))
    facts = with_gpus(amd, amd.gpus + nvidia.gpus)
    world = await start(answer, facts=facts, platforms={"linux": {"rocm": BLOCK, "cuda": BLOCK}})

    info = (await world.get("/v1/system-info")).json

    assert info["recipes"][RECIPE]["backends"][RECIPE]["state"] == "installed"
    assert [gpu["family"] for gpu in info["devices"]["nvidia_gpu"]] == ["sm_89"]


async def test_a_load_that_fails_says_which_fact_is_missing(start: Starter) -> None:
    """Where no block is for this host one is tried all the same, and its failure has a likely reason."""
    world = await start(answer, platforms={"linux": {"rocm": BLOCK}})
    world.driver.ready.clear()
    loading = asyncio.create_task(world.post("/v1/load", {"model_name": "m"}))
    await until(lambda: bool(world.driver.engines) and world.driver.engines[0].started)
    world.driver.engines[0].die(ExitStatus(code=3))

    response = await loading
    assert response.status == 500
    assert "rocm is not known to work here: no AMD GPU with its driver was found" in str(response.json)


async def test_a_load_that_lacks_an_architecture_says_so(start: Starter) -> None:
    block = {"command": "engine", "args": ["{arch_alias}"]}
    world = await start(answer, platforms={"linux": {"cpu": block}}, arch_aliases={"gfx1151": "strix-halo"})

    response = await world.post("/v1/load", {"model_name": "m"})

    assert "no GPU architecture is known of this host" in str(response.json)
