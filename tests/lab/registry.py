"""Registries of the lab: open ones, ones that want a login, and one that is slow."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Final

from tests.lab.engine import ContainerEngine
from tests.lab.errors import LabError
from tests.lab.space import Space
from tests.lab.waiting import wait_until

USER: Final = "lemonpod"
PASSWORD: Final = "lemonpod"
# `htpasswd -Bbn lemonpod lemonpod`; docker-registry takes bcrypt only.
_HTPASSWD: Final = "lemonpod:$2b$04$4Pe7p3XH5NxOPPKk0jHVAeFd1RxceVEGJksMoF/VyYKU9iJ1pN/Eu\n"
_CONFIG: Final = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}, delete: {{enabled: true}}}}
http: {{addr: "{address}", relativeurls: true}}
"""
_AUTH: Final = "auth: {{htpasswd: {{realm: lemonpod, path: {folder}/htpasswd}}}}\n"
_STEPS: Final = 20
"""In how many portions a second's worth of bytes is sent."""


@dataclass(frozen=True)
class Registry:
    """A registry that answers plain HTTP on a loopback address, `host:port`."""

    address: str

    def push(self, engine: ContainerEngine, image: str, tag: str) -> str:
        """Push an image of the engine as `name:tag`; the reference by which it can be pulled from here."""
        reference = f"{self.address}/{tag}"
        engine.run_cli("tag", image, reference)
        engine.run_cli("push", reference, timeout=120)
        engine.run_cli("rmi", reference)
        return reference

    def digest(self, tag: str) -> str:
        """The digest that `name:tag` has now."""
        name, _, version = tag.rpartition(":")
        connection = HTTPConnection(self.address, timeout=10)
        accepted = ", ".join(
            (
                "application/vnd.oci.image.manifest.v1+json",
                "application/vnd.docker.distribution.manifest.v2+json",
            )
        )
        try:
            connection.request("HEAD", f"/v2/{name}/manifests/{version}", headers={"Accept": accepted})
            digest = connection.getresponse().getheader("Docker-Content-Digest")
        finally:
            connection.close()
        if digest is None:
            raise LabError(f"{self.address} has no {tag}")
        return digest


def start_registry(space: Space, *, login: bool = False) -> Registry:
    """A registry of its own in a new space, which ends it."""
    folder = space.folder
    address = f"127.0.0.1:{_unused_port()}"
    config = folder / "registry.yml"
    config.write_text((_CONFIG + (_AUTH if login else "")).format(folder=folder, address=address))
    (folder / "htpasswd").write_text(_HTPASSWD)
    log = folder / "registry.log"
    space.open()
    process = space.start(("docker-registry", "serve", str(config)), log)
    wait_until(lambda: _answers(address) or process.poll() is not None, f"the registry {address}")
    if process.poll() is not None:
        raise LabError(f"the registry ended: {log.read_text()}")
    return Registry(address)


@contextmanager
def slowed(registry: Registry, bytes_per_second: int) -> Iterator[Registry]:
    """The same registry by another address, where it sends no faster than that."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    host, _, port = registry.address.rpartition(":")
    writers: list[asyncio.StreamWriter] = []
    carrying: set[asyncio.Task[None]] = set()

    async def serve() -> asyncio.Server:
        return await asyncio.start_server(met, "127.0.0.1", 0)

    def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        carrying.add(loop.create_task(carry(reader, writer)))

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        writers.append(upstream_writer)
        # asyncio 3.11 complains of a connection whose task was cancelled.
        with suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, upstream_writer, None))
                both.create_task(_copy(upstream_reader, writer, bytes_per_second))

    async def leave(server: asyncio.Server) -> None:
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()  # what nobody reads any more would keep it open
        await asyncio.sleep(0)

    server = asyncio.run_coroutine_threadsafe(serve(), loop).result(timeout=10)
    try:
        yield Registry(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    finally:
        asyncio.run_coroutine_threadsafe(leave(server), loop).result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: int | None) -> None:
    portion = 1 << 16 if rate is None else max(1, rate // _STEPS)
    try:
        while content := await reader.read(portion):
            writer.write(content)
            await writer.drain()
            if rate is not None:
                await asyncio.sleep(len(content) / rate)
    except ConnectionError:
        pass  # a pull that was cancelled
    finally:
        writer.close()


def _answers(address: str) -> bool:
    connection = HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", "/v2/")
        return connection.getresponse().status in {200, 401}
    except OSError:
        return False
    finally:
        connection.close()


def _unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
