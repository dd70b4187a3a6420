"""`lemonpod pin`: are container images named by their digest?"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lemonpod.cli import local
from lemonpod.cli.files import manifest_files
from lemonpod.cli.output import print_json, print_table

app = typer.Typer(help="Check that container images are pinned by digest.", no_args_is_help=True)


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


@app.command()
def check(
    manifests: Annotated[
        list[Path] | None,
        typer.Argument(metavar="MANIFEST", help="Files, or folders of them.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every manifest found on this machine.")] = False,
    format_: Annotated[Format, typer.Option("--format", help="How to print what was found.")] = Format.TEXT,
) -> None:
    """List every image in every block, and whether a digest pins it. Exits 1 if one is not pinned."""
    from lemonpod.pin import report
    from lemonpod.pin.scan import scan_catalog, scan_file

    if every is bool(manifests):
        raise typer.BadParameter("name manifests, or say --all", param_hint="MANIFEST")
    if every:
        findings = scan_catalog(local.inventory(None, None).catalog)
    else:
        files = dict.fromkeys(manifest_files(manifests or (), parameter="MANIFEST"))
        findings = tuple(finding for file in files for finding in scan_file(file))
    match format_:
        case Format.TEXT:
            if findings:
                print_table(report.COLUMNS, report.rows(findings), empty="")
            typer.echo(report.summary(findings))
        case Format.JSON:
            print_json(report.as_json(findings))
        case Format.SARIF:
            print_json(report.as_sarif(findings))
        case Format.GITHUB:
            for line in report.as_annotations(findings):
                typer.echo(line)
    if not all(finding.pinned for finding in findings):
        raise typer.Exit(1)
