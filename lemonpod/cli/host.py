"""`lemonpod host` and `lemonpod doctor`: what this machine is, and what keeps it from serving."""

from __future__ import annotations

import typer

from lemonpod.cli.options import LOOPBACK, PORT, AsJson, CacheDir, ConfigDir, ServerHost, ServerPort


def host(as_json: AsJson = False) -> None:
    """Show the facts about this machine that launch plans depend on."""
    from lemonpod.cli.output import print_json, print_table
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
    server_host: ServerHost = LOOPBACK,
    server_port: ServerPort = PORT,
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> int:
    """Examine folders, manifests, models and the server, and say what to do. Exits 1 on any finding."""
    from lemonpod.cli.examine import examine
    from lemonpod.cli.output import print_json

    checks = examine(server_host, server_port, cache_dir, config_dir)
    if as_json:
        print_json([{"check": c.name, "ok": c.ok, "found": c.found, "fix": c.fix} for c in checks])
    else:
        for check in checks:
            typer.echo(f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {check.found}")
            if check.fix:
                typer.echo(f"     fix: {check.fix}")
    return 0 if all(check.ok for check in checks) else 1
