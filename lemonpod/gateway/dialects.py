"""Requests and answers of engines that speak OpenAI's API with an accent, or not at all.

whisper.cpp's server takes OpenAI's form under another path, and calls its plain texts by other types.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import IO, Final

from lemonpod.contract.vocabulary import Body, Capability
from lemonpod.gateway.form import read_form, write_form
from lemonpod.gateway.headers import Field
from lemonpod.gateway.intake import IN_MEMORY, Intake, Upload, check_size
from lemonpod.gateway.json_body import BIG, JsonBody
from lemonpod.gateway.llamacpp_chat import llamacpp_body
from lemonpod.gateway.multipart import boundary_of
from lemonpod.gateway.routes import Route
from lemonpod.gateway.sd_images import EDITS, VARIATIONS, edit_form, generation_body
from lemonpod.launch.plan import Dialect, LaunchPlan

_TEXT: Final = b"text/plain; charset=utf-8"


def route_of(route: Route, plan: LaunchPlan) -> Route:
    """The route as the engine has it: stable-diffusion.cpp makes a variation by an edit."""
    if plan.dialect is Dialect.SD_CPP and route.spec.path == VARIATIONS:
        return replace(route, spec=replace(route.spec, engine_path=f"/v1{EDITS}"))
    return route


def body_of(route: Route, intake: Intake, plan: LaunchPlan) -> Intake:
    """A body that is no form, as the engine takes it; one beyond BIG has been there already."""
    if not isinstance(intake, JsonBody):
        return intake
    if plan.dialect is Dialect.LLAMA_CPP and len(intake.data) <= BIG:
        return llamacpp_body(intake, route.capability)
    if plan.dialect is Dialect.SD_CPP:
        check_size(len(intake.data), BIG, None)  # no prompt is that long, and all of it is taken apart
        return JsonBody(generation_body(intake.data, plan.options), {})
    return intake


@asynccontextmanager
async def aside_of(
    route: Route, intake: Intake, plan: LaunchPlan, content_type: bytes
) -> AsyncIterator[Intake]:
    """What takes too long to hold up others, as the engine takes it: a form, with the client's own boundary,
    or a long body. Anything else as it is."""
    if isinstance(intake, JsonBody) and plan.dialect is Dialect.LLAMA_CPP and len(intake.data) > BIG:
        yield await asyncio.to_thread(llamacpp_body, intake, route.capability)
        return
    is_edit = route.capability is Capability.IMAGE and route.spec.body is Body.MULTIPART
    if not isinstance(intake, Upload) or not is_edit or plan.dialect is not Dialect.SD_CPP:
        yield intake
        return
    boundary = boundary_of(content_type.decode("utf-8", "surrogateescape"))
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as file:
        size = await asyncio.to_thread(_tell_again, route, intake.file, plan, boundary, file)
        yield Upload(file, size, intake.model)


def _tell_again(route: Route, form: IO[bytes], plan: LaunchPlan, boundary: bytes, target: IO[bytes]) -> int:
    parts = edit_form(read_form(form, boundary), plan.options, is_variation=route.spec.path == VARIATIONS)
    return write_form(parts, form, boundary, target)


def as_plain_text(fields: Iterable[Field]) -> tuple[tuple[bytes, bytes], ...]:
    """whisper.cpp calls a transcript HTML, and subtitles by types that no client of OpenAI's expects."""
    return tuple((name, _TEXT if key == b"content-type" else value) for key, name, value in fields)
