"""The images that a command line has a runtime use, and the refusal of those that no digest pins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from lemonpod.contract.image import parse_image
from lemonpod.contract.location import shown
from lemonpod.errors import ArgvError, ImageError, UnpinnedImageError
from lemonpod.launch.argv.split import ContainerCommand, split
from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.plan import StopCommand

_IMAGE_MOUNTS: Final = frozenset({"image", "artifact"})
_HINT: Final = "'lemonpod pin update' writes digests into a manifest; require_pinned_images asks for them"


def images(command: ContainerCommand, argv: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The images that are mounted, then the one that runs, each with the word of `argv` that it is in."""
    for option in command.options:
        if option.name == "--mount" and (image := _mounted(option.value)):
            yield option.index + (argv[option.index] == option.name), image
    if not command.is_on("--rootfs"):  # of podman: the word names a folder
        yield command.image_index, command.image


def require_pinned(argv: Sequence[str], stop: StopCommand | ContainerStop | None, block_path: str) -> None:
    """Raise UnpinnedImageError unless every image that the commands have podman or docker use is pinned.

    `argv` has its tokens resolved. A command that neither runs nor creates a container passes.
    """
    _require_pinned(argv, block_path)
    if isinstance(stop, StopCommand):
        _require_pinned([str(word) for word in stop.argv], f"{block_path}, stop command")


def _require_pinned(argv: Sequence[str], place: str) -> None:
    try:
        command = split(argv)
    except ArgvError as error:
        _refuse(f"{place}: which image runs cannot be told: {error.reason}", error.index)
    if command is None:
        return
    for index, image in images(command, argv):
        try:
            pinned = parse_image(image).pinned
        except ImageError as error:
            _refuse(f"{place}: {error.message}", index)
        if not pinned:
            _refuse(f"{place}: no digest pins the image '{shown(image)}'", index)


def _refuse(why: str, index: int) -> NoReturn:
    raise UnpinnedImageError(f"{why}, at argv[{index}]", hint=_HINT) from None


def _mounted(value: str) -> str | None:
    pairs = (part.strip('"').partition("=") for part in value.split(","))
    fields = {name: text for name, _, text in pairs}
    if fields.get("type") not in _IMAGE_MOUNTS:
        return None
    return fields.get("src") or fields.get("source")
