"""How much an archive may hold. What is within these limits fits engines; what is beyond is made to harm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lemonpod.errors import ArchiveError

ENTRIES: Final = 50_000
"""A ROCm toolkit with all its kernels has some ten thousand files."""
BYTES: Final = 64 << 30
RATIO: Final = 100
"""Of unpacked to packed. Programs come to less than ten, a file of zeros to a thousand and more."""
SMALL: Final = 64 << 20
"""As much may come out of any archive."""


@dataclass(slots=True)
class Budget:
    """The bytes that an archive may still give."""

    limit: int
    spent: int = 0

    @classmethod
    def of(cls, packed: int) -> Budget:
        """That of an archive of `packed` bytes."""
        return cls(min(BYTES, max(SMALL, packed * RATIO)))

    @property
    def left(self) -> int:
        return self.limit - self.spent

    def spend(self, count: int) -> None:
        """Raises ArchiveError where that is more than is left."""
        self.spent += count
        self.check(0)

    def check(self, count: int) -> None:
        """Raises ArchiveError where `count` more would be too many."""
        if count > self.left:
            raise ArchiveError(
                f"holds more than {self.limit >> 20} MiB, {RATIO} times what was fetched",
                hint="no executable packs that well: it is made to fill the disk",
            )
