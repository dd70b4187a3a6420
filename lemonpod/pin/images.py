"""The images in a manifest: of every command line in every block, and as each arch override would run it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from lemonpod.contract.image import is_digest, parse_image
from lemonpod.contract.location import Path as DocumentPath
from lemonpod.contract.manifest import Block, Manifest
from lemonpod.contract.tokens import Template
from lemonpod.errors import ArgvError, ImageError
from lemonpod.launch.argv.split import split
from lemonpod.launch.container import Runtime
from lemonpod.launch.pinned import images

_COMMANDS: Final = (("command", "args"), ("stop_command", "stop_command_args"))

_Word: TypeAlias = tuple[DocumentPath, str]
_Layers: TypeAlias = Sequence[tuple[DocumentPath, Block]]
"""Blocks with their places; the first that says a field is the one that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUse:
    """An image where a manifest writes it, tokens and all; none where a `problem` hides which it is."""

    path: DocumentPath
    image: str | None
    digest: str | None = None
    problem: str | None = None
    runtimes: frozenset[Runtime] = frozenset()
    """Whose image it is: both, where an override runs the words of its block with the other program."""


def images_of(manifest: Manifest) -> tuple[ImageUse, ...]:
    """Every image once for each place that names it, in the order of the blocks."""
    found: dict[ImageUse, frozenset[Runtime]] = {}
    for words in _command_lines(manifest):
        for use in _uses(words):  # an override may leave the words of its block as they are
            key = replace(use, runtimes=frozenset())
            found[key] = found.get(key, frozenset()) | use.runtimes
    return tuple(replace(use, runtimes=runtimes) for use, runtimes in found.items())


def _command_lines(manifest: Manifest) -> Iterator[list[_Word]]:
    for system, blocks in manifest.platforms.items():
        for accelerator, block in blocks.items():
            path: DocumentPath = ("platforms", str(system), str(accelerator))
            yield from _of_layers([(path, block)])
            for pattern, override in block.arch.items():
                yield from _of_layers([((*path, "arch", pattern), override), (path, block)])


def _of_layers(layers: _Layers) -> Iterator[list[_Word]]:
    for program, args in _COMMANDS:
        yield [*_said(program, layers), *_said(args, layers)]


def _said(field: str, layers: _Layers) -> list[_Word]:
    for path, block in layers:
        match getattr(block, field):
            case Template() as text:
                return [((*path, field), str(text))]
            case tuple() as texts:
                return [((*path, field, index), str(text)) for index, text in enumerate(texts)]
    return []


def _uses(words: Sequence[_Word]) -> Iterator[ImageUse]:
    places, argv = [path for path, _ in words], [text for _, text in words]
    try:
        command = split(argv)
    except ArgvError as error:
        problem = f"{error.reason} ({error.hint})" if error.hint else error.reason
        yield ImageUse(path=places[error.index], image=None, problem=problem)
        return
    if command is None:
        return
    runtimes = frozenset({command.runtime})
    for index, image in images(command, argv):
        digest, why = _digest(image)
        yield ImageUse(path=places[index], image=image, digest=digest, problem=why, runtimes=runtimes)


def _digest(image: str) -> tuple[str | None, str | None]:
    """The digest that pins `image`, or why it is no image at all."""
    if "{" in image:  # what its tokens will be is unknown, but no token has a part in a digest that is whole
        _, at, tail = image.rpartition("@")
        return (tail if at and is_digest(tail) else None), None
    try:
        return parse_image(image).digest, None
    except ImageError as error:
        return None, str(error)
