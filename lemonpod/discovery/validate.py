"""What is wrong with manifest files before anybody loads them, for `lemonpod manifest validate`.

Everything that discovery would refuse, and what would fail only at load: a `variant_of` whose base gives no
launch plan, an `extends` that is nowhere, a token that can have no value where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.contract.bases import base_problem
from lemonpod.contract.inherit import resolve_extends
from lemonpod.contract.location import Path as DocumentPath
from lemonpod.contract.location import location
from lemonpod.contract.manifest import Manifest
from lemonpod.contract.parse import parse_manifest
from lemonpod.contract.templates import templates_of
from lemonpod.contract.tokens import Template, Token
from lemonpod.contract.vocabulary import RESOLVABLE_ENV
from lemonpod.discovery.catalog import Catalog, built_in_collision
from lemonpod.discovery.paths import DiscoveryPaths
from lemonpod.discovery.read import MAX_BYTES, read_document
from lemonpod.discovery.trust import directory_problems, read_trusted
from lemonpod.errors import ManifestError, Problem, UntrustedFileError

_STOP: Final = ("stop_command", "stop_command_args")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What was found in one file; `manifest` is there where it could be read."""

    path: Path
    manifest: Manifest | None
    problems: tuple[Problem, ...]


def validate_files(
    files: Sequence[Path], catalog: Catalog, *, paths: DiscoveryPaths, builtin: frozenset[str], euid: int
) -> tuple[FileReport, ...]:
    """The findings of each file; files that are given together may extend one another."""
    reports = [_read(file, paths, euid) for file in files]
    given = {report.manifest.recipe: report.manifest for report in reports if report.manifest}
    found = []
    for report in reports:
        problems = list(report.problems)
        if report.manifest is not None:
            around = {recipe: descriptor.manifest for recipe, descriptor in catalog.descriptors.items()}
            around |= {**given, report.manifest.recipe: report.manifest}
            problems += _lint(report.manifest, around, builtin)
        # A file that is in place may be refused for what lies around it.
        here = (rejected for rejected in catalog.rejected if rejected.path == report.path.absolute())
        problems += [problem for rejected in here for problem in rejected.problems]
        found.append(
            FileReport(path=report.path, manifest=report.manifest, problems=tuple(dict.fromkeys(problems)))
        )
    return tuple(found)


def _read(file: Path, paths: DiscoveryPaths, euid: int) -> FileReport:
    """The file by itself: who could have written it, whether it can be read, whether it is a manifest."""
    scope = paths.scope_of(file.absolute())
    problems: list[Problem] = []
    manifest = None
    try:
        if scope:  # elsewhere it does not matter what lies above the file, because it will not stay there
            problems += directory_problems(file.parent, scope, euid)
        try:
            data: bytes | None = read_trusted(file, scope, euid).data
        except UntrustedFileError as error:
            problems += error.problems
            data = _anyhow(file)
        if data is not None:
            manifest = parse_manifest(read_document(data, suffix=file.suffix))
    except ManifestError as error:
        problems += error.problems
    except OSError as error:
        problems.append(Problem(location="", message=f"cannot open file: {error.strerror}"))
    return FileReport(path=file, manifest=manifest, problems=tuple(problems))


def _anyhow(file: Path) -> bytes | None:
    """What an untrusted file says, so that one run finds the rest of its problems too."""
    if not file.is_file():
        return None
    with file.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _lint(manifest: Manifest, around: Mapping[str, Manifest], builtin: frozenset[str]) -> Iterator[Problem]:
    """What would keep `manifest` from being listed or loaded; it is one of those `around`."""
    if manifest.recipe in builtin:
        yield built_in_collision(manifest.recipe)
    if manifest.extends is not None:
        _, dropped = resolve_extends(around)
        if manifest.recipe in dropped:
            yield dropped[manifest.recipe]
    base = manifest.variant_of
    if base is not None and (problem := base_problem(base, external=base in around)):
        yield Problem(location="variant_of", message=problem)
    yield from _without_effect(manifest)
    yield from _without_a_shell(manifest)
    for path, template in templates_of(manifest):
        for token in template.tokens:
            if why := _never_has_a_value(token, template, path):
                yield Problem(location=location(path), message=why[0], hint=why[1])


def _without_effect(manifest: Manifest) -> Iterator[Problem]:
    for system, blocks in manifest.platforms.items():
        for accelerator, block in blocks.items():
            path: DocumentPath = ("platforms", str(system), str(accelerator))
            parts = {path: (block, [block, *block.arch.values()])}
            parts |= {(*path, "arch", key): (part, [block, part]) for key, part in block.arch.items()}
            for place, (part, together) in parts.items():
                if part.stop_command_args and all(one.stop_command is None for one in together):
                    yield Problem(
                        location=location((*place, "stop_command_args")),
                        message="'stop_command_args' has no effect without 'stop_command'",
                        hint="name the program in 'stop_command'",
                    )


def _without_a_shell(manifest: Manifest) -> Iterator[Problem]:
    """Programs whose names only a shell could make sense of."""
    for path, template in templates_of(manifest):
        if path[-1] in ("command", "stop_command") and str(template).startswith("~"):
            yield Problem(
                location=location(path),
                message=f"'{template}' begins with '~', which means nothing without a shell",
                hint="write the path in full",
            )


def _never_has_a_value(token: Token, template: Template, path: DocumentPath) -> tuple[str, str] | None:
    """Why no launch can put a value there, and what to do."""
    in_stop = any(step in _STOP for step in path)
    match token.name:
        case "env" if token.argument not in RESOLVABLE_ENV:
            message = f"environment variable '{token.argument}' is not resolvable"
            return message, f"manifests may read: {', '.join(sorted(RESOLVABLE_ENV))}"
        case "pid" if not in_stop:
            return "token '{pid}' has no value", "it is known to the stop command only"
        case "custom_args" if template.only_token is None or not isinstance(path[-1], int):
            hint = "it stands for any number of arguments, so it must be an element of its own"
            return "token '{custom_args}' has no value", hint
    return None
