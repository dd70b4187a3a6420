"""A block's templates as texts, each failure with its place in front."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from lemonpod.contract.tokens import Template, Token
from lemonpod.errors import LaunchError, TokenError
from lemonpod.launch.plan import Resolved
from lemonpod.launch.substitute import bind, substitute
from lemonpod.launch.values import TokenValues

PID: Final = Token("pid")
CUSTOM_ARGS: Final = Token("custom_args")


@contextmanager
def within(place: str) -> Iterator[None]:
    """Put `place` in front of the message of a launch error that passes."""
    try:
        yield
    except (LaunchError, TokenError) as error:
        error.message = f"{place}: {error.message}"
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """Turns templates into texts. `custom_args` are the user's arguments, checked already."""

    tokens: TokenValues
    custom_args: tuple[str, ...]
    custom_origin: str

    def text(self, template: Template) -> str:
        return substitute(template, self.tokens.text)

    def vector(self, templates: Iterable[Template], field: str) -> tuple[str, ...]:
        """One element a template; only a whole `{custom_args}` stands for as many as the user gave."""
        elements: list[str] = []
        for index, template in enumerate(templates):
            with within(f"{field}[{index}]"):
                elements += self.custom_args if template.only_token == CUSTOM_ARGS else [self.text(template)]
        return tuple(elements)

    def env(self, templates: Mapping[str, Template]) -> dict[str, str]:
        env: dict[str, str] = {}
        for name, template in templates.items():
            with within(f"env.{name}"):
                env[name] = self.text(template)
        return env

    def stop_vector(self, command: Template, args: Iterable[Template]) -> tuple[Template, ...]:
        """The stop command with all but `{pid}` resolved, from what is true at the start of the engine."""
        with within("stop_command"):
            elements = [bind(command, self.tokens.text, keep=PID)]
            for index, template in enumerate(args):
                with within(f"stop_command_args[{index}]"):
                    if template.only_token == CUSTOM_ARGS:
                        elements += [Template((arg,)) for arg in self.custom_args]
                    else:
                        elements.append(bind(template, self.tokens.text, keep=PID))
        return tuple(elements)

    def used(self, templates: Iterable[Template]) -> dict[str, Resolved]:
        """Every token of the templates with its value, for people to read; `{pid}` has none yet."""
        used: dict[str, Resolved] = {}
        for token in (token for template in templates for token in template.tokens):
            if token == CUSTOM_ARGS:
                used[str(token)] = Resolved(shlex.join(self.custom_args), self.custom_origin)
            elif token != PID:
                used[str(token)] = self.tokens.resolved(token)
        return used
