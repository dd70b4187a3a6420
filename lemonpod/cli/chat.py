"""`lemonpod chat`: a talk with a model in the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lemonpod.cli.options import LOOPBACK, PORT, ApiKey, ServerHost, ServerPort
from lemonpod.cli.output import printable, spinner
from lemonpod.errors import ConfigError, LemonpodError

if TYPE_CHECKING:
    from lemonpod.cli.client import Client

_PROMPT: Final = ">>> "
_MORE: Final = "... "
_FENCE: Final = '"""'
_MAX_LINES: Final = 1000
"""Of what was typed, kept for the next talk."""
_HELP: Final = f"""\
/clear         forget the talk so far
/system TEXT   tell the model how to answer, from now on; without a text as it likes
/help          these lines
/bye           leave, as Ctrl-D does

{_FENCE} opens a text of many lines and closes it, and a \\ at a line's end goes on in the next one.
Ctrl-C ends an answer, and the engine's work on it. The arrow keys bring back what was typed before."""


def chat(
    model: Annotated[
        str | None, typer.Argument(help="A registered model; the one used last, if left out.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="How the model is to answer.", show_default=False)
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Longest answer, in tokens.", show_default=False)
    ] = None,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Talk with a model. Ctrl-C ends an answer, Ctrl-D the talk."""
    from lemonpod.cli.client import Client

    client = Client(host, port, api_key)
    talk = _Talk(client, model or _usual_model(client), system, max_tokens)
    is_watched = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if is_watched:
        typer.echo(f"Talking with {printable(talk.model)}. /help tells what can be done, Ctrl-D leaves.")
    with _remembered_lines(is_watched):
        for text in _texts(is_watched):
            if text.startswith("/"):
                if not _obey(text, talk):
                    return
            elif text.strip():
                _answer(talk, text, is_watched)


class _Talk:
    """What was said, and with whom."""

    def __init__(self, client: Client, model: str, system: str | None, max_tokens: int | None) -> None:
        self.client = client
        self.model = model
        self.system = system
        self.said: list[dict[str, str]] = []
        self._limit = {} if max_tokens is None else {"max_tokens": max_tokens}

    def request(self, text: str) -> dict[str, Any]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        messages = [*system, *self.said, {"role": "user", "content": text}]
        return {"model": self.model, "messages": messages, "stream": True, **self._limit}

    def keep(self, text: str, answer: str) -> None:
        """A question that got no word of an answer was never asked."""
        if answer:
            self.said += [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]


def _answer(talk: _Talk, text: str, is_watched: bool) -> None:
    """Print the answer as it comes. What was said until Ctrl-C is part of the talk."""
    from lemonpod.cli.answer import as_text, pieces_of

    text, heard = as_text(text), []
    try:
        # Leaving the block closes the connection, by which the engine learns that nobody listens.
        with closing(pieces_of(talk.client, talk.request(text))) as pieces:
            with spinner(f"Waiting for {talk.model}"):
                first = next(pieces, "")
            for piece in chain([first], pieces):
                heard.append(piece)
                # A model may say anything, also what a terminal would obey.
                sys.stdout.write(printable(piece) if sys.stdout.isatty() else piece)
                sys.stdout.flush()
    except KeyboardInterrupt:
        if not is_watched:
            raise
    except ConfigError:
        raise  # there is no server to talk with
    except LemonpodError as error:
        if not is_watched:
            raise
        typer.echo(f"{'' if not heard else chr(10)}error: {error}", err=True)
        return
    finally:
        talk.keep(text, "".join(heard))
    typer.echo()


def _obey(command: str, talk: _Talk) -> bool:
    """Whether the talk goes on."""
    name, _, rest = command.strip().partition(" ")
    match name:
        case "/bye" | "/exit" | "/quit":
            return False
        case "/clear":
            talk.said.clear()
        case "/system":
            talk.system = rest.strip() or None
        case "/help":
            typer.echo(_HELP)
        case _:
            typer.echo(f"There is no command {printable(name)}: /help lists them.", err=True)
    return True


def _texts(is_watched: bool) -> Iterator[str]:
    """What is typed, a text at a time; Ctrl-C throws away what is not sent yet."""
    while True:
        try:
            yield _text(_PROMPT if is_watched else "", _MORE if is_watched else "")
        except EOFError:
            if is_watched:
                typer.echo()
            return
        except KeyboardInterrupt:
            if not is_watched:
                raise
            typer.echo()


def _text(prompt: str, more: str) -> str:
    lines: list[str] = []
    line = input(prompt)
    if line.lstrip().startswith(_FENCE):
        line = line.lstrip().removeprefix(_FENCE)
        while _FENCE not in line:
            lines.append(line)
            line = input(more)
        return "\n".join([*lines, line.partition(_FENCE)[0]]).strip("\n")
    while line.endswith("\\"):
        lines.append(line.removesuffix("\\"))
        line = input(more)
    return "\n".join([*lines, line])


@contextmanager
def _remembered_lines(is_watched: bool) -> Iterator[None]:
    """Lines that can be edited, and those of earlier talks."""
    if not is_watched:
        yield
        return
    import readline

    from lemonpod.config import find_folders

    path = find_folders(os.environ).cache / "lemonpod" / "chat_history"
    readline.set_history_length(_MAX_LINES)
    with suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        with suppress(OSError):  # what was typed is not worth an error
            _write_history(path)


def _write_history(path: Path) -> None:
    import readline

    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    readline.write_history_file(path)


def _usual_model(client: Client) -> str:
    """The model that was used last, else the only one that there is."""
    if (loaded := client.get("/api/v1/health").get("model_loaded")) is not None:
        return str(loaded)
    models = [str(model["id"]) for model in client.get("/api/v1/models", holding=["data"])["data"]]
    if len(models) == 1:
        return models[0]
    hint = f"say which: {', '.join(models[:10])}" if models else "`lemonpod register` adds one"
    raise ConfigError("no model is loaded" if models else "there is no model", hint=hint)
