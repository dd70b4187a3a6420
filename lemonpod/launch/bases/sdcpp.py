"""stable-diffusion.cpp's server."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from lemonpod.contract.manifest import CustomOption
from lemonpod.contract.vocabulary import Accelerator, Capability, JsonValue, Os
from lemonpod.launch.bases.base import Base, Start, cuda_env, library_path, ready_at
from lemonpod.launch.plan import Dialect

_GROUP: Final = "Image generation"


def _plan(start: Start) -> tuple[list[str], dict[str, str]]:
    args = ["--listen-port", str(start.port)]
    if {"text_encoder", "vae"} <= start.checkpoints:
        args += ["--diffusion-model", start.checkpoint("main")]
        args += ["--llm", start.checkpoint("text_encoder"), "--vae", start.checkpoint("vae")]
    else:
        args += ["-m", start.checkpoint("main")]
    args += ["-v"] if start.debug else []
    args += ["--vae-tiling", "--diffusion-fa"] if start.accelerator is Accelerator.VULKAN else []
    return args, {**library_path(start), **cuda_env(start)}


def _option(name: str, help_: str, default: JsonValue = None) -> CustomOption:
    flag = f"--{name.replace('_', '-')}"
    return CustomOption(name=name, cli_flag=flag, default=default, help=help_, group=_GROUP)


SDCPP: Final = Base(
    recipe="sd-cpp",
    display_name="stable-diffusion.cpp",
    program="sd-server",
    section="sdcpp",
    options=(
        _option("steps", "Sampling steps of a request that names none", 20),
        _option("cfg_scale", "Guidance scale of a request that names none", 7.0),
        _option("width", "Width of a request that names no size", 512),
        _option("height", "Height of a request that names no size", 512),
        _option("sampling_method", "Sampling method of a request that names none"),
        _option("flow_shift", "Flow shift of a request that names none"),
    ),
    renamed=MappingProxyType({"sdcpp_args": "args", "sd-cpp_args": "args", "sd-cpp_backend": "device"}),
    capabilities=(Capability.IMAGE,),
    accelerators=MappingProxyType(
        {
            Os.LINUX: (Accelerator.CPU, Accelerator.CUDA, Accelerator.ROCM, Accelerator.VULKAN),
            Os.WINDOWS: (Accelerator.CPU, Accelerator.CUDA, Accelerator.VULKAN),
            Os.DARWIN: (Accelerator.CPU, Accelerator.METAL),
        }
    ),
    probe=ready_at("/"),
    reserved=frozenset({"-m", "--model", "--diffusion-model", "--llm", "--vae", "-v", "--listen-port"}),
    plan=_plan,
    dialect=Dialect.SD_CPP,
)
