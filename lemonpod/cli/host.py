"""`lemonpod host` and `lemonpod doctor`: what this machine is, and what keeps it from serving."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemonpod.cli import local
from lemonpod.cli.options import LOOPBACK, PORT, AsJson, CacheDir, ConfigDir, ServerHost, ServerPort
from lemonpod.cli.output import print_json, print_table

if TYPE_CHECKING:
    from lemonpod.host.facts import HostFacts
    from lemonpod.host.gpus import Gpu, Npu

_GIB = 1 << 30


def show_host(
    as_json: AsJson = False,
    root: Annotated[
        Path | None,
        typer.Option(
            "--root",
            metavar="FILE|DIR",
            help="Look at another machine: what --capture wrote, or a folder with its files.",
            show_default=False,
        ),
    ] = None,
    capture: Annotated[
        Path | None,
        typer.Option(
            "--capture",
            metavar="FILE",
            help="Write what was read as one JSON document for a bug report; no serials, no names.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what this machine computes on.

    And the accelerators that follow from it, in their order, and why.
    """
    from lemonpod.host.capture import Recorder, captured
    from lemonpod.host.detect import detect
    from lemonpod.host.document import open_tree

    tree = Recorder(open_tree(root or Path("/")))
    facts = detect(tree)
    if capture is not None:
        _write(capture, captured(tree))
    if root is None:
        from lemonpod.host.nvidia_smi import asked

        facts = asked(facts)
    if as_json:
        print_json(_document(facts))
    else:
        _print(facts)


def _write(path: Path, document: dict[str, Any]) -> None:
    import json

    from lemonpod.errors import ConfigError

    try:
        path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    typer.echo(f"wrote {path}", err=True)


def _document(facts: HostFacts) -> dict[str, Any]:
    """The facts for programs; without serial numbers, for it ends up in bug reports."""
    return {
        "os": facts.os,
        "os_version": facts.os_version,
        "machine": facts.machine,
        "cpu_name": facts.cpu_name,
        "cpu_count": facts.cpu_count,
        "core_count": facts.core_count,
        "memory_bytes": facts.memory_bytes,
        "gpus": [_gpu(gpu) for gpu in facts.gpus],
        "npus": [_npu(npu) for npu in facts.npus],
        "accelerators": list(facts.accelerators),
        "rocm_arch": facts.rocm_arch,
        "cuda_arch": facts.cuda_arch,
        "why": {verdict[0]: verdict[2] for verdict in _verdicts(facts)},
        "passed_over": [{"what": one.what, "why": one.why} for one in facts.passed_over],
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "vendor": gpu.vendor,
        "arch": gpu.arch,
        "arch_source": gpu.arch_source,
        "name": gpu.name,
        "pci_address": gpu.pci_address,
        "pci_id": gpu.pci_id,
        "render_node": gpu.render_node,
        "memory_bytes": gpu.memory_bytes,
        "memory_kind": gpu.memory_kind,
        "vram_bytes": gpu.vram_bytes,
        "gtt_bytes": gpu.gtt_bytes,
        "integrated": gpu.integrated,
        "driver": gpu.driver,
        "driver_version": gpu.driver_version,
        "kfd_node": gpu.kfd_node,
        "hip_index": gpu.hip_index,
        "index": gpu.index,
        "suspended": gpu.suspended,
        "usable": gpu.usable,
        "why_not": gpu.why_not,
    }


def _npu(npu: Npu) -> dict[str, Any]:
    return {
        "vendor": npu.vendor,
        "arch": npu.arch,
        "name": npu.name,
        "pci_address": npu.pci_address,
        "pci_id": npu.pci_id,
        "revision": npu.revision,
        "accel_node": npu.accel_node,
        "driver": npu.driver,
        "usable": npu.usable,
        "why_not": npu.why_not,
    }


def _verdicts(facts: HostFacts) -> list[tuple[str, bool, str]]:
    """Each accelerator that is looked for, whether it is offered, and why."""
    from lemonpod.host.choice import LOOKED_FOR, found, missing

    verdicts = [(one.value, True, found(facts, one)) for one in facts.accelerators]
    others = (one for one in LOOKED_FOR if one not in facts.accelerators)
    lacking = ((one.value, missing(facts, one)) for one in others)
    return verdicts + [(name, False, why) for name, why in lacking if why is not None]


def _print(facts: HostFacts) -> None:
    system = [
        ("operating system", facts.os_version or facts.os),
        ("machine", facts.machine),
        ("processor", facts.cpu_name),
        ("threads", facts.cpu_count),
        ("memory", _size(facts.memory_bytes)),
    ]
    print_table(["FACT", "VALUE"], system, empty="Nothing is known.")
    for gpu in facts.gpus:
        typer.echo(f"\n{gpu}")
        typer.echo(f"  {gpu.driver}{_after(gpu.driver_version)}, {_memory(gpu)}, {_place(gpu)}")
        if gpu.why_not is not None:
            typer.echo(f"  not usable: {gpu.why_not}")
    for npu in facts.npus:
        typer.echo(f"\n{npu.name or f'{npu.vendor.label} NPU'}{_after(npu.arch)} at {npu.pci_address}")
        typer.echo(f"  {npu.driver}, {npu.accel_node or 'no node here'}")
        if npu.why_not is not None:
            typer.echo(f"  not usable: {npu.why_not}")
    typer.echo("\nAccelerators, the preferred first")
    for name, offered, why in _verdicts(facts):
        typer.echo(f"  {'yes' if offered else 'no '} {name}: {why}")
    if facts.passed_over:
        typer.echo("\nPassed over")
        for one in facts.passed_over:
            typer.echo(f"  {one.what}: {one.why}")


def _memory(gpu: Gpu) -> str:
    from lemonpod.host.gpus import MemoryKind

    known = _size(gpu.memory_bytes)
    if gpu.memory_kind is MemoryKind.UNKNOWN:
        return "memory unknown"
    return f"{known} {gpu.memory_kind} memory" if known else f"{gpu.memory_kind} memory of unknown size"


def _place(gpu: Gpu) -> str:
    kind = {True: "integrated", False: "discrete", None: "integrated or discrete unknown"}[gpu.integrated]
    return f"{kind}, {gpu.render_node}" if gpu.render_node else f"{kind}, no render node here"


def _after(text: str | None) -> str:
    return f" {text}" if text else ""


def _size(size: int | None) -> str | None:
    return None if size is None else f"{size / _GIB:.1f} GiB"


def doctor(
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """Find what is wrong with this set-up, and say what to do.

    Looks at folders, manifests, models, container engines and the server. Exits 1 on any finding.
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
