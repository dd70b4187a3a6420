"""STUB world"""
from __future__ import annotations
import asyncio, time
from contextlib import AsyncExitStack
from collections.abc import Callable, Awaitable
from typing import Any
from types import MappingProxyType
from lemonpod.contract.manifest import Manifest, HealthProbe, Block
from lemonpod.contract.vocabulary import *
from lemonpod.discovery.catalog import *
from lemonpod.inventory.inventory import Inventory
from lemonpod.engine.pool import Pool
from lemonpod.gateway.app import make_app
from lemonpod.gateway.runner import running
from lemonpod.gateway.settings import GatewaySettings
from tests.factories import make_entry, make_facts, make_plan
from tests.fakes.driver import ScriptedDriver, Script
from tests.unit.gateway.wire import Client, Reply, message

Start = Callable[..., Awaitable["World"]]

class World:
    @property
    def busy(self): return any(s.in_flight for s in self.pool.statuses())
    async def until(self, p): await until(p)
    async def request(self, method, target, headers=None, body=b""):
        c = await Client.connect(self.port)
        try:
            await c.send(message(method, target, headers, body))
            return await c.reply(method=method)
        finally: c.abort()
    async def get(self, t, **h): return await self.request("GET", t, h)
    async def post(self, t, body, headers=None):
        return await self.request("POST", t, {"Content-Type":"application/json"}|(headers or {}), body)
    async def raw(self, data, method="POST"):
        c = await Client.connect(self.port)
        try:
            await c.send(data); return await c.reply(method=method)
        finally: c.abort()
    async def client(self):
        c = await Client.connect(self.port); self.clients.append(c); return c
    async def aclose(self):
        for c in self.clients: c.abort()
        await self.stack.aclose()

async def until(predicate, timeout=5.0):
    async with asyncio.timeout(timeout):
        while not predicate(): await asyncio.sleep(0.005)

async def start_world(script: Script, *, capabilities=("chat_completion","completion"), endpoints=None, labels=(), settings=None, output=(), models=("m",), accelerator="cpu", rejected=()):
    w = World(); w.clients=[]; w.driver = ScriptedDriver(script, output=output); w.stopped=asyncio.Event()
    caps = tuple(Capability(c) for c in capabilities)
    m = Manifest(recipe="test-engine", display_name="Test <engine>", api_contract_version="1", capabilities=caps, platforms={Os.LINUX:{Accelerator.CPU: Block()}}, capability_enable_args={}, probe=HealthProbe(), reserved_args=(), slot_policy=SlotPolicy.STANDARD, model_management=ModelManagement.LEMOND_MANAGED, default_accelerator=Accelerator(accelerator) if accelerator else None, recipe_options={}, custom_options=(), endpoints={Capability(k):v for k,v in (endpoints or {}).items()}, downsize_endpoint=None, arch_aliases={}, extends=None, variant_of=None, source=None, sha256=None, version_policy=None, extensions={})
    cat = Catalog({"test-engine": Descriptor(m, Source("/m.json", Scope.USER_CONFIG, "0"))}, rejected)
    entries = {f"user.{n}": make_entry(id=f"user.{n}", labels=labels) for n in models}
    def plan(s, o, port):
        return make_plan("engine", port=port, model=s.entry.id, capabilities=frozenset(caps), mode=s.mode, engine_paths=dict(m.endpoints))
    w.inventory = Inventory(cat, entries, make_facts(), plan)
    w.pool = Pool(w.inventory, [w.driver])
    w.stack = AsyncExitStack()
    w.stack.push_async_callback(w.pool.aclose)
    app = make_app(w.inventory, w.pool, settings or GatewaySettings(), shutdown=w.stopped.set)
    host, w.port = await w.stack.enter_async_context(running(app, "127.0.0.1", 0))
    return w
