"""Which GPU the tokens name that engines take for their variables, where nobody chose one."""

from __future__ import annotations

from collections.abc import Mapping

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host.choice import cuda_gpu, rocm_gpu
from lemonpod.host.facts import HostFacts


def visible_devices(facts: HostFacts) -> Mapping[str, str]:
    """Values that name the same card as `{rocm_arch}` and `{cuda_arch}` do.

    Each maker's order is its own, so a card is named by its place in that order or by its UUID, and never by
    its place in another. What the files do not tell, as the order of Vulkan, is left to the defaults.
    """
    values: dict[str, str] = {}
    rocm = rocm_gpu(facts.gpus)
    if rocm and rocm.offers(Accelerator.ROCM) and rocm.hip_index is not None:
        values["hip_visible_devices"] = values["rocr_visible_devices"] = str(rocm.hip_index)
    if of_one_kind := cuda_of_one_kind(facts):
        values["cuda_visible_devices"] = of_one_kind[0]
    return values


def cuda_of_one_kind(facts: HostFacts) -> tuple[str, ...]:
    """The UUIDs of all GPUs that `{cuda_arch}` is of, on a host that has others too.

    CUDA counts the fastest first, which no file says; where all are alike any count will do.
    """
    chosen = cuda_gpu(facts.gpus)
    usable = [gpu for gpu in facts.gpus if gpu.offers(Accelerator.CUDA)]
    if chosen is None or len({gpu.arch for gpu in usable}) < 2:
        return ()
    uuids = [gpu.uuid for gpu in usable if gpu.arch == chosen.arch]
    return tuple(uuid for uuid in uuids if uuid) if all(uuids) else ()
