"""Variables and labels of a container, from the command line and from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lemonpod.contract.location import shown
from lemonpod.launch.argv.values import Context, Refused
from lemonpod.launch.container import Runtime, Variable


def variables(text: str, context: Context) -> tuple[Variable, ...]:
    """Of `--env`: `NAME=VALUE`, `NAME` from the caller, and for podman `PREFIX*` of the caller's."""
    name, given, value = text.partition("=")
    if not text and context.runtime is Runtime.PODMAN:
        return ()
    if not name:
        raise Refused(f"takes NAME=VALUE, not '{shown(text)}'")
    if given:
        return (Variable(name, value),)
    if context.runtime is Runtime.PODMAN:
        return tuple(_from_caller(name, context))
    return (Variable(name, context.caller.env.get(name)),)


def env_file(path: str, context: Context) -> tuple[Variable, ...]:
    """Of `--env-file`: a variable a line; one without a value is the caller's, or none."""
    return tuple(
        variable
        for line in _lines(context.text_of(path))
        for variable in _variable_of_line(line, path, context)
    )


def label_file(path: str, context: Context) -> tuple[tuple[str, str], ...]:
    """Of `--label-file`, which both programs read like one of variables, also from the caller."""
    return tuple((one.name, one.value or "") for one in env_file(path, context))


def label(text: str, context: Context) -> tuple[str, str]:
    """`NAME=VALUE`; the name alone has an empty value."""
    name, _, value = text.partition("=")
    has_space = name != "".join(name.split())
    if not name.strip() or (has_space and context.runtime is Runtime.DOCKER):
        raise Refused(f"takes NAME=VALUE, not '{shown(text)}'")
    return name, value


def last_of_each(variables: Iterable[Variable]) -> tuple[Variable, ...]:
    """The variables, of those with the same name the last."""
    return tuple({variable.name: variable for variable in variables}.values())


def _variable_of_line(line: str, path: str, context: Context) -> Iterator[Variable]:
    name, given, value = line.partition("=")
    if not name:
        raise Refused(f"names a file with a line that has no name: '{shown(path)}'")
    # podman takes such a name, docker does not: `export A=1` is the usual mistake.
    if context.runtime is Runtime.DOCKER and name != "".join(name.split()):
        raise Refused(f"names a file in which '{shown(name)}' is to be a variable: '{shown(path)}'")
    if given:
        yield Variable(name, value)
    elif context.runtime is Runtime.PODMAN:
        yield from _from_caller(name, context)
    elif name in context.caller.env:
        yield Variable(name, context.caller.env[name])


def _from_caller(name: str, context: Context) -> Iterator[Variable]:
    env = context.caller.env
    if name.endswith("*"):
        yield from (Variable(key, env[key]) for key in env if key.startswith(name[:-1]))
    elif name in env:
        yield Variable(name, env[name])


def _lines(text: str) -> Iterator[str]:
    """Lines that say something. Quotes and a `#` further on are part of the value."""
    for line in text.split("\n"):
        stripped = line.removesuffix("\r").lstrip()
        if stripped and not stripped.startswith("#"):
            yield stripped
