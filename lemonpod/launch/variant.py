"""A variant's command line: the built-in backend's, with another executable (RFC section 7).

A built-in backend is launched as the variant of itself.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from lemonpod.contract.bases import base_problem
from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.tokens import Template, Token
from lemonpod.contract.vocabulary import Accelerator, Mode, Os
from lemonpod.errors import LaunchError
from lemonpod.launch.bases.base import LIBRARIES, Base, Start
from lemonpod.launch.bases.executable import SYSTEM, Found, program_of_variant, programs_of_builtin
from lemonpod.launch.bases.table import BASES, is_builtin
from lemonpod.launch.bases.words import asked_accelerator, in_common_words, own_words
from lemonpod.launch.command import Command, enable_args, other_templates, working_dir
from lemonpod.launch.custom_args import check_reserved, split_args
from lemonpod.launch.devices import cuda_of_one_kind
from lemonpod.launch.options import Options, effective_options
from lemonpod.launch.render import CUSTOM_ARGS, Renderer, within
from lemonpod.launch.request import LaunchRequest
from lemonpod.launch.select import Selection, select_block
from lemonpod.launch.substitute import check_passable
from lemonpod.launch.values import TokenValues
from lemonpod.models.entry import MAIN

_DEBUG_LEVELS: Final = frozenset({"debug", "trace"})
_UNSAID: Final = HealthProbe()


def base_of(recipe: str) -> Base:
    """The backend that a `variant_of` names; raises LaunchError where there is none."""
    if problem := base_problem(recipe, external=False):
        raise LaunchError(problem)
    return BASES[recipe]


def command_of_variant(request: LaunchRequest, base: Base, mode: Mode | None) -> Command:
    """The backend's launch plan for the executable of this recipe."""
    manifest = request.manifest
    selection, found = select_program(request, base)
    request = in_common_words(request, base, selection.accelerator)
    options = effective_options(request)
    block = selection.block
    render = _renderer(request, options, selection, str(found.path))
    extra = block.argv_extra or ()
    placed = any(template.only_token == CUSTOM_ARGS for template in extra)
    start = _start(request, mode, selection, render, appends_custom_args=not placed)
    with within("command"):
        step = base.step(start)
        argv = (
            *(step.executable, *step.args),
            *render.vector(extra, "argv_extra"),
            *enable_args(manifest, mode, render),
        )
    env = render.env(block.env)
    if not is_builtin(manifest) and request.facts.os is not Os.WINDOWS:
        beside = filter(None, (start.folder, start.inherited_libraries))
        env[LIBRARIES] = ":".join(beside)
    files = [Template((Token("checkpoint", MAIN),))] if start.loads_from_hub is None else []
    return Command(
        options=options,
        selection=replace(
            selection,
            lines=(
                *selection.lines,
                f"command line: that of the built-in backend {base.recipe}",
                f"executable: {found.path} ({found.origin})",
            ),
        ),
        render=render,
        argv=argv,
        env=MappingProxyType({**env, **step.env}),
        cwd=working_dir(block, render, request.facts.os) or step.working_dir,
        held=found.held,
        templates=(*files, *extra, *other_templates(block, manifest, mode)),
        # One that says nothing of its own is ready where and when the backend is.
        probe=base.probe if manifest.probe == _UNSAID else manifest.probe,
        engine_paths=base.engine_paths,
        dialect=base.dialect,
        own_words=own_words(base) if is_builtin(manifest) else MappingProxyType({}),
    )


def device_of(request: LaunchRequest) -> str | None:
    """What the options say to run on, as blocks are named."""
    base = BASES.get(request.manifest.variant_of or "")
    if base is None:
        return effective_options(request).device
    return asked_accelerator(effective_options(in_common_words(request, base)))


def select_program(request: LaunchRequest, base: Base) -> tuple[Selection, Found]:
    """The block, and the program for it. Of a built-in backend there are only blocks that have one."""
    manifest, facts = request.manifest, request.facts
    asked = device_of(request)
    if not is_builtin(manifest):
        selection = select_block(manifest, facts, asked)
        return selection, program_of_variant(request, selection)
    found = programs_of_builtin(request, base, asked)
    blocks = manifest.platforms[facts.os]
    usable = MappingProxyType({facts.os: MappingProxyType({name: blocks[name] for name in found})})
    selection = select_block(replace(manifest, platforms=usable), facts, None if asked == SYSTEM else asked)
    return selection, found[selection.accelerator]


def _renderer(request: LaunchRequest, options: Options, selection: Selection, executable: str) -> Renderer:
    with within("command"):
        custom = tuple(arg for option in options.args for arg in split_args(option.value))
        check_reserved(custom, {*request.manifest.reserved_args, *(selection.block.reserved_args or ())})
        for arg in custom:
            check_passable(arg)
    return Renderer(
        tokens=TokenValues(
            request=request, options=options, accelerator=selection.accelerator, command=executable
        ),
        custom_args=custom,
        custom_origin=" + ".join(option.origin for option in options.args) or "not set",
    )


def _start(
    request: LaunchRequest,
    mode: Mode | None,
    selection: Selection,
    render: Renderer,
    *,
    appends_custom_args: bool,
) -> Start:
    entry, facts, settings = request.entry, request.facts, request.settings
    rocm = facts.rocm_arch if selection.accelerator is Accelerator.ROCM else None
    therock = settings.cache_dir / "bin" / "therock"
    return Start(
        executable=render.tokens.command or "",
        port=request.port,
        os=facts.os,
        accelerator=selection.accelerator,
        mode=mode,
        labels=frozenset(entry.labels),
        options=render.tokens.options,
        custom_args=render.custom_args,
        appends_custom_args=appends_custom_args,
        checkpoints=frozenset(entry.checkpoints),
        checkpoint=lambda name: render.text(Template((Token("checkpoint", name),))),
        loads_from_hub=entry.checkpoints[MAIN].text if entry.hf_load and MAIN in entry.checkpoints else None,
        debug=settings.log_level in _DEBUG_LEVELS,
        rocm_libraries=tuple(map(str, request.programs.libraries(therock, rocm))) if rocm else (),
        inherited_libraries=request.env.get(LIBRARIES) or None,
        cuda_of_one_kind=cuda_of_one_kind(facts),
        variables=frozenset({*request.env, *selection.block.env}),
    )
