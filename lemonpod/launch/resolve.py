"""Manifest + model + host + port = one frozen launch plan. Pure, and the only way to one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Final

from lemonpod.contract.manifest import Block, Manifest
from lemonpod.contract.tokens import Template
from lemonpod.contract.vocabulary import CAPABILITIES, Capability, Mode, Os
from lemonpod.errors import LaunchError
from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.argv.values import Caller
from lemonpod.launch.custom_args import check_reserved, split_args
from lemonpod.launch.environment import inheritable
from lemonpod.launch.mode import model_mode
from lemonpod.launch.notes import env_notes, notes
from lemonpod.launch.options import Options, effective_options
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

# How a plan came to be, which two equal engines may differ in.
_EXPLANATION: Final = frozenset({"digest", "notes", "overrides", "selection", "values"})


def resolve(request: LaunchRequest) -> LaunchPlan:
    """The plan for one launch; raises LaunchError or TokenError that name the recipe and the place."""
    plan = _plan(request)
    portless = describe(_plan(replace(request, port=0)))
    identity = {name: value for name, value in portless.items() if name not in _EXPLANATION}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return replace(plan, digest=digest)


def _plan(request: LaunchRequest) -> LaunchPlan:
    manifest, settings = request.manifest, request.settings
    with within(f"recipe '{manifest.recipe}'"):
        _refuse_variant(manifest)
        mode = model_mode(manifest, request.entry)
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
            argv = (command, *render.vector(block.args, "args"), *_enable_args(manifest, mode, render))
        env = render.env(block.env)
        caller = Caller(
            cwd=request.folder, env=MappingProxyType({**inheritable(request.env), **env}), read=request.read
        )
        cwd = _working_dir(block, render, request.facts.os)
        spec, by_cli = started_as(argv, cwd, caller, env, settings.containers.container_driver)
        stop = _stop(block, render, spec, caller.env, env)
        if settings.containers.require_pinned_images:
            require_pinned(argv, stop, selection.path)
        values = render.used(_templates(block, manifest, mode))
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
            env=MappingProxyType(env),
            probe=manifest.probe,
            peer_checked=by_cli is None,
            stop=stop,
            slot_policy=manifest.slot_policy,
            engine_paths=manifest.endpoints,
            downsize_endpoint=manifest.downsize_endpoint,
            options=MappingProxyType(options.chosen()),
            values=MappingProxyType(values),
            selection=selection.lines,
            by_cli=by_cli,
            overrides=MappingProxyType(dict(request.overrides)),
            notes=(*options.notes, *notes(request, render, values), *env_notes(argv, caller.env)),
            digest="",
        )


def _refuse_variant(manifest: Manifest) -> None:
    if manifest.variant_of is not None:
        raise LaunchError(
            f"a variant of '{manifest.variant_of}' cannot be launched by this version, which runs recipes "
            "with 'command' and 'args'",
            hint="write the command line as 'command' and 'args', or use a later version of lemonpod",
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


def _enabled(manifest: Manifest, mode: Mode | None) -> list[Capability]:
    """The declared capabilities that are on in `mode`: all that share it, for a model has one mode."""
    return [c for c in manifest.capabilities if mode is not None and CAPABILITIES[c].mode is mode]


def _enable_args(manifest: Manifest, mode: Mode | None, render: Renderer) -> tuple[str, ...]:
    argv: tuple[str, ...] = ()
    for capability in _enabled(manifest, mode):
        templates = manifest.capability_enable_args.get(capability, ())
        argv += render.vector(templates, f"capability_enable_args.{capability}")
    return argv


def _working_dir(block: Block, render: Renderer, os: Os) -> Path | None:
    if block.working_dir is None:
        return None
    with within("working_dir"):
        text = render.text(block.working_dir)
        pure = PureWindowsPath(text) if os is Os.WINDOWS else PurePosixPath(text)
        if not pure.is_absolute():
            raise LaunchError(
                f"'{text}' is not an absolute path",
                hint="write it in full, or begin it with a folder, as in {cache_dir}/work",
            )
        return Path(text)


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


def _templates(block: Block, manifest: Manifest, mode: Mode | None) -> Iterator[Template]:
    """All templates of the plan, in the order in which people read a command line."""
    single = [block.command, *(block.args or ())]
    enabled = [manifest.capability_enable_args.get(c, ()) for c in _enabled(manifest, mode)]
    stop = [block.stop_command, *(block.stop_command_args or ())]
    rest = [*block.env.values(), block.working_dir, *stop]
    yield from (t for t in chain(single, *enabled, rest) if t is not None)
