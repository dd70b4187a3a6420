"""The `lemonpod` command: its commands by topic, and the one table from error to exit code.

Command modules import what they need inside their functions: `--help` and shell completion must not pay for
the server's imports.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from lemonpod import __version__, errors
from lemonpod.cli import (
    alias,
    backends,
    bench,
    chat,
    demo,
    engines,
    host,
    manifest,
    models,
    pin,
    pull,
    serve,
    status,
)

EXIT_OK: Final = 0
EXIT_FINDINGS: Final = 1
EXIT_USAGE: Final = 2
EXIT_ENVIRONMENT: Final = 3
EXIT_BUG: Final = 70
EXIT_INTERRUPTED: Final = 130

# The nearest class in an error's ancestry decides.
EXIT_CODES: Final[dict[type[BaseException], int]] = {
    errors.LemonpodError: EXIT_FINDINGS,
    errors.ConfigError: EXIT_ENVIRONMENT,
    errors.InvalidModelError: EXIT_USAGE,
    errors.NoPortError: EXIT_ENVIRONMENT,
    errors.SpawnError: EXIT_ENVIRONMENT,
}

# What no command can be blamed for: a full disk, a file that is not ours, too many open files.
_OF_THE_MACHINE: Final = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EPERM,
        errno.EROFS,
    }
)

# What Ollama and Lemonade call what we have.
_ELSEWHERE: Final = {
    "cp": "alias add",
    "create": "register",
    "ls": "list",
    "models": "list",
    "ps": "status",
    "recipes": "backends",
    "rm": "delete",
    "show": "manifest plan",
    "start": "serve",
    "stop": "unload",
}


class _Commands(TyperGroup):
    """Knows the commands that users of other programs try first."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in _ELSEWHERE and not ctx.resilient_parsing:
            ctx.fail(f"No such command '{args[0]}'. Here it is `lemonpod {_ELSEWHERE[args[0]]}`.")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="lemonpod",
    cls=_Commands,
    help="Run any inference engine that a small JSON manifest describes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help in half the time
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.add_typer(manifest.app, name="manifest")
app.add_typer(pin.app, name="pin")
app.add_typer(backends.app, name="backends")
app.command("register")(models.register)
app.command("pull", cls=pull.PairsCommand)(pull.pull)
app.command("delete")(pull.delete)
app.command("import")(pull.import_model)
app.command("export")(pull.export)
app.add_typer(alias.app, name="alias")
app.command("list")(models.list_models)
app.command("load")(engines.load)
app.command("unload")(engines.unload)
app.command("unpin")(engines.unpin)
app.command("run")(engines.run)
app.command("chat")(chat.chat)
app.command("bench")(bench.bench)
app.command("status")(status.status)
app.command("logs")(engines.logs)
app.command("host")(host.show_host)
app.command("doctor")(host.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lemonpod {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", "-v", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run any inference engine that a small JSON manifest describes."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; every error becomes one readable message."""
    _open_streams()
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    except OSError as error:
        _drop_output()
        code = _machine_error(error)
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        app(args=list(arguments), prog_name="lemonpod")
    except SystemExit as done:
        # A reader of our output that goes away, as `head` does, is one of those that Typer and Rich end for.
        if isinstance(done.__context__, BrokenPipeError):
            _drop_output()
            return EXIT_OK
        # Typer has printed what it has to say, of wrong usage (2) and of Ctrl-C, which it calls an abort.
        interrupted = isinstance(done.__context__, typer.Abort)
        return EXIT_INTERRUPTED if interrupted else int(done.code or EXIT_OK)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return EXIT_OK
    except errors.ManifestError as error:
        for problem in error.problems:
            typer.echo(f"error: {problem}", err=True)
        return exit_code(error)
    except errors.LemonpodError as error:
        typer.echo(f"error: {error.message}", err=True)
        if error.hint:
            typer.echo(f"  hint: {error.hint}", err=True)
        return exit_code(error)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            return _machine_error(error)
        traceback.print_exc()
        typer.echo("error: this is a bug in lemonpod, please report it with the lines above", err=True)
        return EXIT_BUG
    return EXIT_OK


def _open_streams() -> None:
    """Streams for any text: a name that the terminal cannot show must not cost the rest of the answer."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Nobody takes our output any more; what is left of it must not be an error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _machine_error(error: OSError) -> int:
    where = f"{error.filename}: " if error.filename else ""
    typer.echo(f"error: {where}{error.strerror}", err=True)
    return EXIT_ENVIRONMENT


def exit_code(error: BaseException) -> int:
    """The exit code for an error, looked up along its class's ancestry."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)
