"""Who is asked what an image's tag means now, and what a name means to whoever is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from lemonpod.contract.image import ImageRef, parse_image
from lemonpod.errors import ImageError, LemonpodError
from lemonpod.launch.container import Runtime

DOCKER_HUB: Final = "docker.io"
_HUB_NAMES: Final = frozenset({DOCKER_HUB, "index.docker.io"})

_Answer = TypeVar("_Answer")


class DigestError(LemonpodError):
    """What an image means now cannot be told, and why."""

    code = "digest_unknown"


class NoSuchImageError(DigestError):
    """There is no image of that name, tag or digest."""

    code = "image_unknown"


class UnreachableError(DigestError):
    """Nobody answered; somebody else may know."""

    code = "source_unreachable"


def qualified(image: ImageRef, runtimes: Collection[Runtime]) -> ImageRef:
    """`image` with the registry and the repository that `runtimes` take it for.

    Raises ImageError for a short name of podman, which means what the settings of its machine say.
    """
    if image.registry is None and set(runtimes) != {Runtime.DOCKER}:
        raise ImageError(
            f"'{image}' is a short name, which podman looks up in the settings of each machine",
            hint=f"write its registry too, as in {_in_full(image)}",
        )
    return _in_full(image)


def _in_full(image: ImageRef) -> ImageRef:
    """`image` as docker reads it; of a name that has a registry podman reads the same."""
    if image.registry is not None and image.registry not in _HUB_NAMES:
        return image
    official = "/" not in image.repository
    repository = f"library/{image.repository}" if official else image.repository
    return replace(image, registry=DOCKER_HUB, repository=repository)


class DigestSource(Protocol):
    """Knows which digests images have. Blocks; every method raises DigestError."""

    def digest(self, image: ImageRef) -> str:
        """What `image` names now, as `algorithm:hex`; of one with a digest, that digest if it is there."""

    def includes(self, image: ImageRef, digest: str) -> bool:
        """Whether `digest` is what `image` names now, or one platform of it.

        A tag names an index of platforms, and either digest may have been written down.
        """


class Remembering:
    """Asks for each image once, so that a tag means the same to all that ask in one run."""

    def __init__(self, source: DigestSource) -> None:
        self._source = source
        self._digests: dict[ImageRef, str | DigestError] = {}

    def digest(self, image: ImageRef) -> str:
        if image not in self._digests:
            try:
                self._digests[image] = self._source.digest(image)
            except DigestError as error:
                self._digests[image] = error
        known = self._digests[image]
        if isinstance(known, DigestError):
            raise known
        return known

    def includes(self, image: ImageRef, digest: str) -> bool:
        return self._source.includes(image, digest)


class FirstReached:
    """The first source that answers, whatever it says."""

    def __init__(self, *sources: DigestSource) -> None:
        self._sources = sources

    def digest(self, image: ImageRef) -> str:
        return self._ask(lambda source: source.digest(image))

    def includes(self, image: ImageRef, digest: str) -> bool:
        return self._ask(lambda source: source.includes(image, digest))

    def _ask(self, question: Callable[[DigestSource], _Answer]) -> _Answer:
        reasons: list[str] = []
        for source in self._sources:
            try:
                return question(source)
            except UnreachableError as error:
                reasons.append(str(error))
            except DigestError as error:
                if not reasons:
                    raise
                raise DigestError("; ".join([*reasons, str(error)])) from error
        raise UnreachableError("; ".join(reasons))


class EngineImages:
    """The images that a container engine has pulled.

    `repo_digests` gives the names with digest, `name@sha256:…`, that the engine has for a reference, or None
    where it has no such image; it raises DigestError where the engine does not answer.
    """

    def __init__(self, repo_digests: Callable[[str], Collection[str] | None]) -> None:
        self._repo_digests = repo_digests

    def digest(self, image: ImageRef) -> str:
        digests = self._digests(image)
        if image.digest is not None and image.digest in digests:
            return image.digest
        if len(digests) != 1:
            # Of an index and a manifest in it an engine does not say which is which.
            known = ", ".join(digests) or "none"
            raise DigestError(
                f"the engine has '{image}' under more than one digest or under none: {known}",
                hint="ask the registry",
            )
        return digests[0]

    def includes(self, image: ImageRef, digest: str) -> bool:
        if digest in self._digests(image):
            return True
        # Docker knows no manifest of an index by its digest before it has pulled that one too.
        named = replace(image, tag=None, digest=digest)
        if self._repo_digests(str(named)) is None:
            raise DigestError(f"the engine has no image '{named}' to compare", hint="ask the registry")
        return False

    def _digests(self, image: ImageRef) -> Sequence[str]:
        names = self._repo_digests(str(image))
        if names is None:
            # Not pulled is not gone.
            raise DigestError(f"the engine has no image '{image}'", hint="pull it, or ask the registry")
        # One image may have been pulled from several repositories; elsewhere these digests mean nothing.
        wanted = replace(_in_full(image), tag=None, digest=None)
        known = (_in_full(parse_image(name)) for name in names)
        return sorted(
            {one.digest for one in known if one.digest and replace(one, tag=None, digest=None) == wanted}
        )
