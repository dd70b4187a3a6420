"""References to container images: `registry:port/path/name:tag@sha256:…`, parsed and written back.

The grammar is the one of docker and podman. Nothing is filled in: a name without a registry is a short name,
which each runtime resolves its own way, and a name without a tag stays without.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NoReturn

from lemonpod.contract.location import shown
from lemonpod.errors import ImageError

DIGEST_LENGTHS: Final = MappingProxyType({"sha256": 64, "sha512": 128})
"""Hex digits of a digest, by algorithm."""
MAX_NAME: Final = 255
"""Characters of registry and repository together; registries store no longer name."""

_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?")
_COMPONENT: Final = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_HEX: Final = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRef:
    """An image as it was named; `digest` is `algorithm:hex`."""

    registry: str | None = None
    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def pinned(self) -> bool:
        """Whether it can only ever mean these bytes; beside a digest, a tag is a remark."""
        return self.digest is not None

    def __str__(self) -> str:
        registry = "" if self.registry is None else f"{self.registry}/"
        tag = "" if self.tag is None else f":{self.tag}"
        digest = "" if self.digest is None else f"@{self.digest}"
        return f"{registry}{self.repository}{tag}{digest}"


def parse_image(text: str) -> ImageRef:
    """The reference that `text` is; raises ImageError, which quotes it."""
    if not text:
        raise ImageError("the name of the image is empty")
    named, at, digest = text.partition("@")
    if at and (why := _digest_problem(digest)):
        _refuse(text, why)
    registry, path = _split_registry(named)
    repository, colon, tag = path.partition(":")
    if registry is not None and not _REGISTRY.fullmatch(registry):
        transport = registry.endswith(":")
        hint = "leave out the transport, as 'docker://'" if transport else None
        _refuse(text, f"'{shown(registry)}' is no registry", hint)
    _check_repository(repository, text)
    if colon and not _TAG.fullmatch(tag):
        _refuse(text, f"'{shown(tag)}' is no tag", "up to 128 letters, digits and _ . -")
    if len(named) - len(colon + tag) > MAX_NAME:
        _refuse(text, f"the name is longer than {MAX_NAME} characters")
    return ImageRef(
        registry=registry,
        repository=repository,
        tag=tag if colon else None,
        digest=digest if at else None,
    )


def is_digest(text: str) -> bool:
    """Whether `text` is a whole digest of an algorithm that images are named by."""
    return _digest_problem(text) is None


def _split_registry(name: str) -> tuple[str | None, str]:
    """The first component is a registry where it cannot be part of a repository's path."""
    first, slash, rest = name.partition("/")
    is_registry = slash and (
        first == "localhost" or first != first.lower() or not {".", ":"}.isdisjoint(first)
    )
    return (first, rest) if is_registry else (None, name)


def _check_repository(repository: str, text: str) -> None:
    for component in repository.split("/"):
        if _COMPONENT.fullmatch(component):
            continue
        if not component:
            _refuse(text, "a part of its name is empty")
        if _COMPONENT.fullmatch(component.lower()):
            _refuse(text, f"'{shown(component)}' has uppercase letters", "a repository's name is lowercase")
        _refuse(text, f"'{shown(component)}' cannot be part of a name")


def _digest_problem(digest: str) -> str | None:
    algorithm, colon, digits = digest.partition(":")
    length = DIGEST_LENGTHS.get(algorithm)
    if not colon or length is None:
        return (
            f"'{shown(digest)}' is no digest; it begins with {' or '.join(f'{a}:' for a in DIGEST_LENGTHS)}"
        )
    if not _HEX.fullmatch(digits):
        return f"the digest '{shown(digest)}' has other characters than 0-9 and a-f"
    if len(digits) != length:
        return f"its digest has {len(digits)} digits, {algorithm} has {length}"
    return None


def _refuse(text: str, why: str, hint: str | None = None) -> NoReturn:
    raise ImageError(f"'{shown(text)}' names no image: {why}", hint=hint)
