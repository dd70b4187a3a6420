"""Asks every maker's module for what is there, and puts it together."""

from __future__ import annotations

from dataclasses import replace

from lemonpod.host import amd, intel, linux, nvidia, tegra, wsl
from lemonpod.host.choice import with_gpus
from lemonpod.host.drm import minors
from lemonpod.host.facts import HostFacts
from lemonpod.host.npu import find_npus
from lemonpod.host.passed_over import passed_over
from lemonpod.host.pci import Function
from lemonpod.host.tree import Tree


def look(tree: Tree, functions: tuple[Function, ...], facts: HostFacts) -> HostFacts:
    """The facts with the GPUs and NPUs of the machine, what follows from them, and what is none of them."""
    drm = minors(tree)
    gpus = [
        *amd.gpus(tree, functions, drm, linux.kernel_version(tree)),
        *nvidia.gpus(tree, functions, drm, facts.memory_bytes),
        *tegra.gpus(tree, facts.memory_bytes),
        *wsl.gpus(tree),
        *intel.gpus(tree, functions, drm),
    ]
    npus = find_npus(tree, functions)
    others = passed_over(tree, functions, drm, gpus, npus)
    return with_gpus(replace(facts, npus=npus, passed_over=others), gpus)
