"""`lemonpod pin`: are container images named by their digest, and is that what their tags name now?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer
from typer.core import TyperGroup

from lemonpod.cli import engines, local
from lemonpod.cli.files import manifest_files
from lemonpod.cli.output import print_json, print_table, spinner

if TYPE_CHECKING:
    from lemonpod.launch.container import Runtime
    from lemonpod.pin.scan import Scanned
    from lemonpod.pin.source import DigestSource
    from lemonpod.pin.verdicts import Outcome


class _Pin(TyperGroup):
    """`pin MODEL` is what Lemonade's users write."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        is_model = not args[0].startswith("-") and args[0] not in self.commands
        return super().resolve_command(ctx, ["model", *args] if is_model else args)


app = typer.Typer(
    cls=_Pin,
    help="Pin images by digest, or (`pin MODEL`) keep a model loaded.",
    no_args_is_help=True,
)
app.command("model")(engines.pin)

_ASKING: Final = "asking for digests"


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


class Asked(StrEnum):
    """Who is asked for digests."""

    REGISTRY = "registry"
    ENGINE = "engine"
    AUTO = "auto"


_Manifests: TypeAlias = Annotated[
    list[Path] | None,
    typer.Argument(metavar="MANIFEST", help="Files, or folders of them.", show_default=False),
]
_Every: TypeAlias = Annotated[bool, typer.Option("--all", help="Every manifest found on this machine.")]
_Format: TypeAlias = Annotated[Format, typer.Option("--format", help="How to print what was found.")]
_From: TypeAlias = Annotated[
    Asked,
    typer.Option(
        "--from",
        help="Whom to ask: the image's registry, podman and docker on this machine as they have pulled it, "
        "or these only where the registry cannot be reached (auto).",
    ),
]


@app.command()
def check(
    manifests: _Manifests = None,
    every: _Every = False,
    resolve: Annotated[bool, typer.Option("--resolve", help="Ask which digest each tag has now.")] = False,
    asked: _From = Asked.AUTO,
    format_: _Format = Format.TEXT,
) -> None:
    """List every image in every block, and whether a digest pins it. Exits 1 if one is not pinned.

    Needs no network, unless --resolve is given; exits 3 if then a digest cannot be told.
    """
    from lemonpod.pin.verdicts import checked

    sources = _sources(asked) if resolve else None
    with spinner(_ASKING):
        found = [one for file in _scanned(manifests, every) for one in file.findings]
        outcomes = [checked(one, sources(one.runtimes) if sources else None) for one in found]
    _report(outcomes, format_)


@app.command()
def update(
    manifests: _Manifests = None,
    every: _Every = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing, show what would be.")] = False,
    asked: _From = Asked.AUTO,
    format_: _Format = Format.TEXT,
) -> None:
    """Write the digest that each tag has now into the manifests.

    As name:tag@sha256:…, and no other byte.
    Exits 1 if an image could not be pinned, 3 if its digest cannot be told.
    """
    from lemonpod.pin.update import update as update_file

    sources = _sources(asked)
    with spinner(_ASKING):
        files = _scanned(manifests, every)
        outcomes = [one for file in files for one in update_file(file, sources, write=not dry_run)]
    _report(outcomes, format_, note="nothing was written" if dry_run else None)


@app.command()
def verify(
    manifests: _Manifests = None,
    every: _Every = False,
    asked: _From = Asked.REGISTRY,
    format_: _Format = Format.TEXT,
) -> None:
    """Tell which tags have moved, and which digests are gone.

    A tag has moved that names something else now than the digest behind it.
    Exits 1 if there is one, 3 if that cannot be told. An image without a digest is not verified.
    """
    from lemonpod.pin.verdicts import verified

    sources = _sources(asked)
    with spinner(_ASKING):
        found = [one for file in _scanned(manifests, every) for one in file.findings]
        outcomes = [verified(one, sources(one.runtimes)) for one in found]
    _report(outcomes, format_)


def _scanned(manifests: list[Path] | None, every: bool) -> Iterable[Scanned]:
    from lemonpod.pin.scan import scan_catalog, scan_file

    if every is bool(manifests):
        raise typer.BadParameter("name manifests, or say --all", param_hint="MANIFEST")
    if every:
        return scan_catalog(local.inventory(None, None).catalog)
    files = dict.fromkeys(manifest_files(manifests or (), parameter="MANIFEST"))
    return map(scan_file, files)


def _sources(asked: Asked) -> Callable[[frozenset[Runtime]], DigestSource]:
    """Whom to ask for images of some runtimes: an engine's are only of that engine."""
    from lemonpod.cli.local_images import LocalImages
    from lemonpod.config import home_folder
    from lemonpod.pin.credentials import Credentials, credential_files
    from lemonpod.pin.registry import Registry
    from lemonpod.pin.source import EngineImages, FirstReached, Remembering

    registry = Registry(Credentials(credential_files(os.environ, home_folder(os.environ))))

    @cache
    def source(runtimes: frozenset[Runtime]) -> DigestSource:
        engines = EngineImages(LocalImages(os.environ, runtimes).repo_digests)
        match asked:
            case Asked.REGISTRY:
                return Remembering(registry)
            case Asked.ENGINE:
                return Remembering(engines)
            case Asked.AUTO:
                return Remembering(FirstReached(registry, engines))

    return source


def _report(outcomes: Sequence[Outcome], format_: Format, *, note: str | None = None) -> None:
    """Print what was found, and exit 1 if something has to be mended, else 3 if something is unknown."""
    from lemonpod.pin import report
    from lemonpod.pin.verdicts import Verdict

    match format_:
        case Format.TEXT:
            if outcomes:
                columns, rows = report.table(outcomes)
                print_table(columns, rows, empty="")
            typer.echo("; ".join(filter(None, [report.summary(outcomes), note])))
        case Format.JSON:
            print_json(report.as_json(outcomes))
        case Format.SARIF:
            print_json(report.as_sarif(outcomes))
        case Format.GITHUB:
            for line in report.as_annotations(outcomes):
                typer.echo(line)
    verdicts = {outcome.verdict for outcome in outcomes}
    if verdicts & report.FINDINGS:
        raise typer.Exit(1)
    if Verdict.UNKNOWN in verdicts:
        raise typer.Exit(3)
