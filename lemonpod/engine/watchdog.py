"""After ready: is a quiet engine still there?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lemonpod.engine.api import Engine
from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import EngineExitedError, EngineUnhealthyError


async def watch(engine: Engine, settings: EngineSettings, busy: Callable[[], bool]) -> None:
    """Probe until the engine has failed too often in a row, then raise EngineUnhealthyError.

    A busy engine is left alone: it is at work, and may be too slow to answer. What else the probe raises goes
    up as it is, but for an exit, which others wait for.
    """
    await asyncio.sleep(settings.watchdog_grace)
    failures = 0
    while True:
        await asyncio.sleep(settings.watchdog_interval)
        if busy() or await _answers(engine, settings.watchdog_probe_timeout) or busy():
            failures = 0
            continue
        failures += 1
        if failures >= settings.watchdog_max_failures:
            plan = engine.plan
            raise EngineUnhealthyError(
                f"the {plan.recipe} engine of {plan.model} was idle and did not answer "
                f"{failures} times in a row: {await engine.diagnose()}"
            )


async def _answers(engine: Engine, timeout: float) -> bool:
    try:
        async with asyncio.timeout(timeout):
            return await engine.probe()
    except (TimeoutError, EngineExitedError):
        return False
