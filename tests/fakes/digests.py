"""A DigestSource that knows what a test tells it."""

from __future__ import annotations

from lemonpod.contract.image import ImageRef
from lemonpod.pin.source import DigestError, NoSuchImageError


class FakeDigests:
    """`known`: digests of images, these in full. `platforms`: digests of the manifests in an index."""

    def __init__(
        self,
        known: dict[str, str | DigestError] | None = None,
        platforms: dict[str, set[str]] | None = None,
    ) -> None:
        self.known = known or {}
        self.platforms = platforms or {}
        self.asked: list[str] = []

    def digest(self, image: ImageRef) -> str:
        self.asked.append(str(image))
        match self.known.get(str(image)):
            case None:
                raise NoSuchImageError(f"there is no '{image}'")
            case DigestError() as error:
                raise error
            case digest:
                return digest

    def includes(self, image: ImageRef, digest: str) -> bool:
        return digest in self.platforms.get(self.digest(image), ())
