"""What a plan remarks on: it can be started, and hardly does what somebody meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lemonpod.errors import ArgvError
from lemonpod.launch.argv.split import split
from lemonpod.launch.plan import Resolved
from lemonpod.launch.render import CUSTOM_ARGS, Renderer
from lemonpod.launch.request import LaunchRequest
from lemonpod.models.entry import MAIN


def notes(request: LaunchRequest, render: Renderer, values: Mapping[str, Resolved]) -> Iterator[str]:
    """On arguments of the user's that go nowhere, and on a model that its container does not find."""
    if request.manifest.variant_of is None:
        yield from _args_note(render, values)
    yield from _mount_note(request, values)


def env_notes(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
    """On variables that a container is to inherit and that are not there: most of the server's are not."""
    try:
        command = split(argv)
    except ArgvError:  # left to the program itself
        return
    for option in command.options if command else ():
        name = option.value
        if option.name == "--env" and name and "=" not in name and "*" not in name and name not in env:
            yield (
                f"'--env {name}' gives the container nothing: the engine's environment has no such variable "
                "(name it in the block's 'env', or in a file for '--env-file')"
            )


def _args_note(render: Renderer, values: Mapping[str, Resolved]) -> Iterator[str]:
    if render.custom_args and str(CUSTOM_ARGS) not in values:
        yield (
            f"option 'args' of {render.custom_origin} is ignored: the manifest has no argument {CUSTOM_ARGS}"
        )


def _mount_note(request: LaunchRequest, values: Mapping[str, Resolved]) -> Iterator[str]:
    """Two traps: a container finds below a folder that it mounts only what lies below that folder."""
    main = request.files.get(MAIN)
    relative = values.keys() & {"{checkpoint_relative:main}", "{model_relative_path}"}
    if not relative or main is None or main.path is None:
        return
    cached = main.path.is_relative_to(request.settings.hf_cache)
    if cached and "{model_dir}" in values:
        yield (
            f"{min(relative)} is relative to {{hf_cache}}, not to {{model_dir}}: a container that mounts "
            "{model_dir} does not find it there"
        )
    if not cached and "{hf_cache}" in values and "{model_dir}" not in values:
        yield (
            f"the model is outside {{hf_cache}}, and {min(relative)} is the name of its file: a container "
            "that mounts {hf_cache} alone does not find it (mount {model_dir} too)"
        )
