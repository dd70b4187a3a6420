"""`lemonpod host` and `lemonpod doctor`: what this machine is, and what keeps it from serving."""

from __future__ import annotations

import os

import typer

from lemonpod.cli import local
from lemonpod.cli.options import LOOPBACK, PORT, AsJson, CacheDir, ConfigDir, ServerHost, ServerPort
from lemonpod.cli.output import print_json, print_table


def show_host(as_json: AsJson = False) -> None:
    """Show the facts about this machine that launch plans depend on."""
    from lemonpod.host.detect import detect

    facts = detect()
    document = {
        "os": facts.os,
        "os_version": facts.os_version,
        "machine": facts.machine,
        "cpu_name": facts.cpu_name,
        "cpu_count": facts.cpu_count,
        "memory_bytes": facts.memory_bytes,
        "accelerators": list(facts.accelerators),
    }
    if as_json:
        print_json(document)
        return
    print_table(
        ["FACT", "VALUE"],
        [(name, ", ".join(value) if isinstance(value, list) else value) for name, value in document.items()],
        empty="Nothing is known.",
    )


def doctor(
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """Examine folders, manifests, models, container engines and the server, and say what to do.

    Exits 1 on any finding.
    """
    from lemonpod.cli.examine import examine

    local.keep_the_log_quiet()
    checks = list(examine(local.folders(cache_dir, config_dir), host, port, os.environ))
    if as_json:
        print_json([{"check": c.name, "ok": c.ok, "found": c.found, "fix": c.fix} for c in checks])
    else:
        for check in checks:
            typer.echo(f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {check.found}")
            if check.fix:
                typer.echo(f"     fix: {check.fix}")
    if not all(check.ok for check in checks):
        raise typer.Exit(1)
