"""Manifest + model + host + port = one frozen launch plan. Pure, and the only way to one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from lemonpod.contract.manifest import Block
from lemonpod.contract.vocabulary import Mode
from lemonpod.errors import LaunchError
from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.argv.values import Caller
from lemonpod.launch.command import Command, enable_args, other_templates, working_dir
from lemonpod.launch.custom_args import check_reserved, split_args
from lemonpod.launch.environment import inheritable
from lemonpod.launch.mode import model_mode
from lemonpod.launch.notes import env_notes, notes
from lemonpod.launch.options import RESIDENCY_OPTIONS, Options, effective_options
from lemonpod.launch.pinned import require_pinned
from lemonpod.launch.plan import (
    ContainerLaunch,
    LaunchPlan,
    ProcessSpec,
    StopCommand,
    TcpEndpoint,
    describe,
)
from lemonpod.launch.render import Renderer, within
from lemonpod.launch.request import LaunchRequest
from lemonpod.launch.select import Selection, select_block
from lemonpod.launch.started import implied_stop, started_as, stopped_by
from lemonpod.launch.substitute import check_passable
from lemonpod.launch.values import TokenValues
from lemonpod.launch.variant import base_of, command_of_variant

# How a plan came to be, which two equal engines may differ in.
_EXPLANATION: Final = frozenset({"digest", "notes", "overrides", "selection", "values"})
_ANY_PORT: Final = 1
"""Stands for whichever is leased, where plans are compared; 0 could not be published."""


def resolve(request: LaunchRequest) -> LaunchPlan:
    """The plan for one launch; raises LaunchError or TokenError that name the recipe and the place."""
    plan = _plan(request)
    portless = describe(_plan(replace(request, port=_ANY_PORT)))
    identity = {name: value for name, value in portless.items() if name not in _EXPLANATION}
    identity["options"] = {
        name: value for name, value in plan.options.items() if name not in RESIDENCY_OPTIONS
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return replace(plan, digest=digest)


def _plan(request: LaunchRequest) -> LaunchPlan:
    manifest, settings = request.manifest, request.settings
    with within(f"recipe '{manifest.recipe}'"):
        mode = model_mode(manifest, request.entry)
        if manifest.variant_of is not None:
            command = command_of_variant(request, base_of(manifest.variant_of), mode)
        else:
            command = _passthrough(request, mode)
        options, selection, render = command.options, command.selection, command.render
        argv, env = command.argv, command.env
        caller = Caller(
            cwd=request.folder, env=MappingProxyType({**inheritable(request.env), **env}), read=request.read
        )
        spec, by_cli = started_as(argv, command.cwd, caller, env, settings.containers.container_driver)
        if command.held is not None and isinstance(spec, ProcessSpec):
            spec = replace(spec, held=command.held)
        stop = _stop(selection.block, render, spec, caller.env, env)
        if settings.containers.require_pinned_images:
            require_pinned(argv, stop, selection.path)
        values = render.used(command.templates)
        return LaunchPlan(
            recipe=manifest.recipe,
            model=request.entry.id,
            mode=mode,
            capabilities=frozenset(manifest.capabilities),
            block_path=selection.path,
            accelerator=selection.accelerator,
            device=selection.device,
            endpoint=TcpEndpoint(host=settings.host, port=request.port),
            spec=spec,
            env=env,
            probe=command.probe,
            peer_checked=by_cli is None,
            stop=stop,
            slot_policy=manifest.slot_policy,
            engine_paths=MappingProxyType({**command.engine_paths, **manifest.endpoints}),
            downsize_endpoint=manifest.downsize_endpoint,
            options=MappingProxyType(
                {command.own_words.get(name, name): value for name, value in options.chosen().items()}
            ),
            values=MappingProxyType(values),
            selection=selection.lines,
            dialect=command.dialect,
            doubt=selection.doubt,
            by_cli=by_cli,
            overrides=MappingProxyType(dict(request.overrides)),
            notes=(*options.notes, *notes(request, render, values), *env_notes(argv, caller.env)),
            digest="",
        )


def _passthrough(request: LaunchRequest, mode: Mode | None) -> Command:
    """The command line that the manifest's block says."""
    manifest = request.manifest
    options = effective_options(request)
    selection = select_block(manifest, request.facts, options.device)
    block = selection.block
    if block.command is None or block.args is None:
        raise LaunchError(f"{selection.path} must set 'command' and 'args'")
    render = _renderer(request, options, selection)
    with within("command"):
        command = render.text(block.command)
        if not command:
            raise LaunchError(f'"{block.command}" resolves to nothing')
        render = replace(render, tokens=replace(render.tokens, command=command))
        argv = (command, *render.vector(block.args, "args"), *enable_args(manifest, mode, render))
    return Command(
        options=options,
        selection=selection,
        render=render,
        argv=argv,
        env=MappingProxyType(render.env(block.env)),
        cwd=working_dir(block, render, request.facts.os),
        templates=(block.command, *block.args, *other_templates(block, manifest, mode)),
        probe=manifest.probe,
    )


def _renderer(request: LaunchRequest, options: Options, selection: Selection) -> Renderer:
    with within("command"):
        custom = tuple(arg for option in options.args for arg in split_args(option.value))
        check_reserved(custom, {*request.manifest.reserved_args, *(selection.block.reserved_args or ())})
        for arg in custom:
            check_passable(arg)
    return Renderer(
        tokens=TokenValues(request=request, options=options, accelerator=selection.accelerator),
        custom_args=custom,
        custom_origin=" + ".join(option.origin for option in options.args) or "not set",
    )


def _stop(
    block: Block,
    render: Renderer,
    spec: ProcessSpec | ContainerLaunch,
    env: Mapping[str, str],
    own: Mapping[str, str],
) -> StopCommand | ContainerStop | None:
    if block.stop_command is None:
        return implied_stop(spec)
    command = render.stop_vector(block.stop_command, block.stop_command_args or ())
    return stopped_by(command, spec, env, own)
