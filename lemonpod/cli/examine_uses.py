"""Which containers are in use: those that models are planned to run in, and those of manifests to come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from lemonpod.cli.check import Check
from lemonpod.cli.examine_containers import container_checks
from lemonpod.cli.examine_engines import Engine, Machine, find_engine, rootless_checks
from lemonpod.contract.manifest import Manifest
from lemonpod.drivers.runtimes import Place
from lemonpod.errors import ArgvError, LaunchError, OnlyByCliError
from lemonpod.host.facts import HostFacts
from lemonpod.inventory.caller import this_caller
from lemonpod.launch.argv.connection import Connection, connection
from lemonpod.launch.argv.run import container_spec
from lemonpod.launch.argv.split import ContainerCommand, split
from lemonpod.launch.container import ContainerSpec, Runtime
from lemonpod.launch.plan import ContainerLaunch, LaunchPlan
from lemonpod.launch.select import select_block

_ANY: Final = "any"  # in place of an image that only a model names


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A container that a recipe runs, and which engine it is asked of."""

    recipe: str
    program: str
    connection: Connection
    spec: ContainerSpec


def use_of_plan(plan: LaunchPlan) -> Use | None:
    """The container of a plan, or None for a process and for what no spec can say."""
    if isinstance(plan.spec, ContainerLaunch):
        launch = plan.spec
        return Use(
            recipe=plan.recipe,
            program=launch.program,
            connection=launch.connection,
            spec=launch.container,
        )
    try:
        command = split(plan.spec.argv)
        return _use(plan.recipe, command) if command and command.direct else None
    except ArgvError:
        return None


def use_of_manifest(manifest: Manifest, facts: HostFacts) -> Use | None:
    """As far as can be told without a model: what the manifest says without a token.

    Raises ArgvError for a command line that podman or docker would refuse.
    """
    try:
        block = select_block(manifest, facts, None).block
    except LaunchError:
        return None
    if block.command is None or block.args is None:
        return None
    command = split([str(block.command), *map(str, block.args)])
    if command is None or not command.direct:
        return None
    said = tuple(option for option in command.options if "{" not in option.value)
    named = "{" not in command.image
    try:
        use = _use(manifest.recipe, replace(command, options=said, image=command.image if named else _ANY))
    except OnlyByCliError:
        return None
    return use if named else replace(use, spec=replace(use.spec, image=command.image))


def use_checks(uses: Iterable[Use], machine: Machine) -> Iterator[Check]:
    """The engines that are asked, each once, then what each container needs of them and of this machine."""
    engines: dict[Place, Engine] = {}
    found: list[Check] = []
    for use in uses:
        place = Place(runtime=use.spec.runtime, program=use.program, connection=use.connection)
        if place not in engines:
            engines[place], check = find_engine(place, machine)
            found.append(check)
        found += container_checks(f"recipe {use.recipe}", use.spec, engines[place], machine)
    rootless = (e for e in engines.values() if e.runtime is Runtime.PODMAN and e.local and e.rootless)
    if any(rootless):
        found += rootless_checks(machine)
    yield from dict.fromkeys(found)  # several models of a recipe find the same
    for runtime in Runtime:
        program = machine.program(runtime)
        if program and not any(place.runtime is runtime for place in engines):
            yield Check(name=runtime.value, ok=True, found=f"{program} is there, and nothing asks for it")


def _use(recipe: str, command: ContainerCommand) -> Use:
    caller = this_caller()
    return Use(
        recipe=recipe,
        program=command.program,
        connection=connection(command.runtime, command.program_options, caller.env, {}),
        spec=container_spec(command, caller),
    )
