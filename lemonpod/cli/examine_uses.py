"""Which containers are in use: those that models are planned to run in, and those of manifests to come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lemonpod.cli.check import Check
from lemonpod.cli.examine_containers import container_checks
from lemonpod.cli.examine_engines import Engine, Machine, find_engine, rootless_checks
from lemonpod.contract.manifest import Manifest
from lemonpod.errors import ArgvError, LaunchError, OnlyByCliError
from lemonpod.host.facts import HostFacts
from lemonpod.inventory.caller import this_caller
from lemonpod.launch.argv.run import container_spec
from lemonpod.launch.argv.split import ContainerCommand, split
from lemonpod.launch.container import ContainerSpec, Runtime
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.select import select_block


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A container that a recipe runs, and which engine its command line asks."""

    recipe: str
    url: str | None
    context: str | None
    spec: ContainerSpec


def use_of_plan(plan: LaunchPlan) -> Use | None:
    """The container of a plan, or None for one that is a process; so is what only the program can run."""
    try:
        command = split(plan.spec.argv)
        return _use(plan.recipe, command) if command and command.direct else None
    except ArgvError:  # the program says the rest
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
    try:
        return _use(manifest.recipe, replace(command, options=said))
    except OnlyByCliError:
        return None


def use_checks(uses: Iterable[Use], machine: Machine) -> Iterator[Check]:
    """The engines that are asked, each once, then what each container needs of them and of this machine."""
    engines: dict[tuple[Runtime, str | None, str | None], Engine] = {}
    found: list[Check] = []
    for use in uses:
        asked = (use.spec.runtime, use.url, use.context)
        if asked not in engines:
            engines[asked], checks = find_engine(*asked, machine)
            found += checks
        found += container_checks(f"recipe {use.recipe}", use.spec, engines[asked], machine)
    rootless = (e for e in engines.values() if e.runtime is Runtime.PODMAN and e.local and e.rootless)
    if any(rootless):
        found += rootless_checks(machine)
    yield from dict.fromkeys(found)  # several models of a recipe find the same
    for runtime in Runtime:
        program = machine.program(runtime)
        if program and not any(asked[0] is runtime for asked in engines):
            yield Check(name=runtime.value, ok=True, found=f"{program} is there, and nothing asks for it")


def _use(recipe: str, command: ContainerCommand) -> Use:
    given: Mapping[str, str] = {option.name: option.value for option in command.program_options}
    return Use(
        recipe=recipe,
        url=given.get("--url") or given.get("--host"),
        context=given.get("--context"),
        spec=container_spec(command, this_caller()),
    )
