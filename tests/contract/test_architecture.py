"""The shape of the code: small modules, each importable by itself, and a CLI that starts light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lemonpod

PACKAGE = Path(lemonpod.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted(Path(__file__).parents[1].rglob("*.py"))
MAX_LINES = 400
HEAVY = {"aiohttp", "jsonschema", "yaml", "psutil", "uvloop", "asyncio", "xllamacpp"}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", [*MODULES, *TESTS], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_module_holds_one_idea(path: Path) -> None:
    """A longer one needs a reason at its top, in a line that begins with `# Long because`."""
    text = path.read_text(encoding="utf-8")

    assert len(text.splitlines()) <= MAX_LINES or "\n# Long because" in text


def test_every_module_can_be_imported_first() -> None:
    """Each in an interpreter of its own: a hidden cycle shows only when its other end comes first."""
    script = (
        "import importlib, os, sys\n"
        "for name in sys.argv[1:]:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        try:\n"
        "            importlib.import_module(name)\n"
        "        except BaseException as error:\n"
        "            print(name, repr(error), flush=True)\n"
        "            os._exit(1)\n"
        "        os._exit(0)\n"
        "    failed = os.waitpid(pid, 0)[1]\n"
        "    if failed: sys.exit(name)\n"
    )
    names = [name_of(path) for path in MODULES]
    done = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from lemonpod.cli.app import run\n"
        "code = run(['--help'])\n"
        "print('modules:', *sorted(sys.modules))\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rpartition("modules:")[2].split())

    assert not loaded & HEAVY


def test_serving_imports_no_installer() -> None:
    """It never downloads an executable: what a server is wired from does not know how."""
    script = (
        "import sys\n"
        "from lemonpod import bootstrap\n"
        "import lemonpod.cli.serve, lemonpod.gateway.app, lemonpod.gateway.runner, lemonpod.engine.pool\n"
        "import lemonpod.drivers.container, lemonpod.drivers.process, lemonpod.inventory.watch\n"
        "print(*sorted(name for name in sys.modules if name.startswith('lemonpod.install')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
