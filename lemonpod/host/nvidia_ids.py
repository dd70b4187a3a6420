"""From PCI device ids to compute capability: no file of NVIDIA's driver says it, and names do not tell.

The ranges hold for display functions (class 0x0300 and 0x0302) alone. A chip that is not here is unknown.
"""

from __future__ import annotations

from typing import Final

# First id, last id, capability; after the chips that the PCI ID database names.
_RANGES: Final = (
    (0x1340, 0x13AC, 50),  # GM107, GM108
    (0x13AD, 0x13AE, 52),
    (0x13AF, 0x13BD, 50),
    (0x13BE, 0x1436, 52),  # GM200, GM204, GM206
    (0x15C2, 0x15FF, 60),  # GP100
    (0x1613, 0x1676, 52),
    (0x1725, 0x172F, 60),
    (0x174D, 0x179C, 50),
    (0x17C2, 0x17FD, 52),
    (0x1B00, 0x1D7F, 61),  # GP102 to GP108
    (0x1D80, 0x1DFF, 70),  # GV100
    (0x1E00, 0x1FFF, 75),  # TU102 to TU117
    (0x2080, 0x20FF, 80),  # GA100
    (0x2180, 0x21FF, 75),
    (0x2200, 0x223F, 86),  # GA102
    (0x2300, 0x23FF, 90),  # GH100
    (0x2400, 0x25FF, 86),  # GA103 to GA107
    (0x2680, 0x28FF, 89),  # AD102 to AD107
    (0x2900, 0x29FF, 100),  # GB100, GB102
    (0x2B00, 0x2B00, 110),  # GB10B
    (0x2B80, 0x2DFF, 120),  # GB202, GB203, GB206, GB207
    (0x2E00, 0x2E7F, 121),  # GB20B
    (0x2F00, 0x2FFF, 120),  # GB205
    (0x3180, 0x323F, 103),  # GB110, GB112
)
_INTEGRATED: Final = frozenset({"sm_110", "sm_121"})


def compute_arch(device: int | None) -> str | None:
    """The architecture of a display function, as `sm_89`."""
    for first, last, capability in _RANGES:
        if device is not None and first <= device <= last:
            return f"sm_{capability}"
    return None


def is_integrated(arch: str | None) -> bool | None:
    """Whether GPUs of that architecture on PCI are part of a processor; an unknown chip may be."""
    return None if arch is None else arch in _INTEGRATED
