"""whisper.cpp's server."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import Accelerator, Capability, Os
from lemonpod.launch.bases.base import Base, Start, library_path, ready_at
from lemonpod.launch.plan import Dialect


def _plan(start: Start) -> tuple[list[str], dict[str, str]]:
    return ["-m", start.checkpoint("main"), "--port", str(start.port)], library_path(start)


WHISPERCPP: Final = Base(
    recipe="whispercpp",
    display_name="whisper.cpp",
    program="whisper-server",
    section="whispercpp",
    options=(),
    renamed=MappingProxyType({"whispercpp_args": "args", "whispercpp_backend": "device"}),
    capabilities=(Capability.TRANSCRIPTION,),
    accelerators=MappingProxyType(
        {
            Os.LINUX: (Accelerator.CPU, Accelerator.ROCM, Accelerator.VULKAN),
            Os.WINDOWS: (Accelerator.CPU, Accelerator.NPU, Accelerator.ROCM, Accelerator.VULKAN),
            Os.DARWIN: (Accelerator.CPU, Accelerator.METAL),
        }
    ),
    probe=ready_at("/health"),
    reserved=frozenset({"-m", "--model", "--port"}),
    plan=_plan,
    engine_paths=MappingProxyType({Capability.TRANSCRIPTION: "/inference"}),
    dialect=Dialect.WHISPER_CPP,
)
