"""`lemonpod-llama-server`: llama.cpp's own HTTP server, from the `xllamacpp` module, as a program.

Takes llama-server's flags. Nothing is downloaded: models are files.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Final, NoReturn, cast

from lemonpod.demo.llama_flags import Member, Setting, UsageError, help_text, read_settings

_EXIT_FAILED: Final = 1
_EXIT_USAGE: Final = 2
_EXIT_ENVIRONMENT: Final = 3
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_GGUF_MAGIC: Final = b"GGUF"

_SAMPLING_BITS: Final = {  # said on the command line, these win over what the model file recommends
    "sampling.temp": "TEMP",
    "sampling.top_k": "TOP_K",
    "sampling.top_p": "TOP_P",
    "sampling.min_p": "MIN_P",
    "sampling.penalty_last_n": "PENALTY_LAST_N",
    "sampling.penalty_repeat": "PENALTY_REPEAT",
}


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Serve until SIGTERM or SIGINT; exits 1 on failure, 2 on a flag it cannot take, 3 without the module."""
    words = sys.argv[1:] if argv is None else argv
    if not {"-h", "--help"}.isdisjoint(words):
        print(help_text())
        sys.exit(0)
    try:
        settings = read_settings(words)
    except UsageError as error:
        _leave(_EXIT_USAGE, str(error))
    for problem in _file_problems(settings):
        _leave(_EXIT_FAILED, problem)
    # llama.cpp keeps the interpreter lock while it loads a model, so no handler could run: the kernel's own
    # action ends the process at once.
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    try:
        import xllamacpp
    except ImportError as error:
        _leave(
            _EXIT_ENVIRONMENT,
            f"{error}; llama.cpp comes with lemonpod's extra: pip install '.[demo]' in its checkout",
        )
    server = _start(xllamacpp, settings)
    _serve(server)
    # There is nothing to save, and the server's destructor would wait for the batch in progress.
    os._exit(0)


def _file_problems(settings: Sequence[Setting]) -> Iterator[str]:
    for attribute, path in settings:
        if attribute not in {"model.path", "mmproj.path"}:
            continue
        try:
            with open(str(path), "rb") as file:
                magic = file.read(len(_GGUF_MAGIC))
        except OSError as error:
            yield f"cannot read {path}: {error.strerror}"
        else:
            if magic != _GGUF_MAGIC:
                yield f"{path} is not a GGUF file: it starts with {magic!r} instead of {_GGUF_MAGIC!r}"


def _start(xllamacpp: ModuleType, settings: Sequence[Setting]) -> Any:
    """llama.cpp's server, its model loaded; /health answers 503 meanwhile."""
    try:
        return xllamacpp.Server(make_params(xllamacpp, settings))
    except RuntimeError:
        values = dict(settings)
        for host in cast(list[str], values["hostnames"]):
            if problem := _listen_problem(host, cast(int, values["port"])):
                _leave(_EXIT_FAILED, problem)
        _leave(_EXIT_FAILED, f"llama.cpp did not load {values['model.path']}: its lines above say why")


def make_params(xllamacpp: ModuleType, settings: Sequence[Setting]) -> Any:
    """The settings as `CommonParams`."""
    params = xllamacpp.CommonParams()
    for attribute, value in settings:
        *path, name = attribute.split(".")
        holder = params
        for part in path:
            holder = getattr(holder, part)
        if isinstance(value, Member):
            value = getattr(getattr(xllamacpp, value.enum), value.name)
        setattr(holder, name, value)
        if bit := _SAMPLING_BITS.get(attribute):
            bits = xllamacpp.common_params_sampling_config
            holder.user_sampling_config |= int(bits[f"COMMON_PARAMS_SAMPLING_CONFIG_{bit}"])
    if ("n_ctx", 0) in settings:
        params.fit_params_min_ctx = -1  # asked for the model's whole context: never less
    return params


def _listen_problem(host: str, port: int) -> str | None:
    """Why nothing can listen there; llama.cpp only says that it could not."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as llama.cpp's own socket
            probe.bind(address)
    except OSError as error:
        return f"cannot listen on {host} port {port}: {error.strerror}"
    return None


def _serve(server: Any) -> None:
    """Say where it listens and return on a stop signal, whichever thread the kernel gives it to."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno())
    for number in _STOP_SIGNALS:
        signal.signal(number, lambda _number, _frame: None)
    print(f"listening on {server.listening_address}", flush=True)
    reader.recv(1)


def _leave(code: int, message: str) -> NoReturn:
    print(f"lemonpod-llama-server: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
