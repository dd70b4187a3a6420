"""llama.cpp's server."""

from __future__ import annotations

import re
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

from lemonpod.contract.manifest import CustomOption
from lemonpod.contract.vocabulary import Accelerator, Capability, Mode, Os
from lemonpod.launch.bases.base import Base, Start, cuda_env, library_path, ready_at
from lemonpod.launch.custom_args import as_text
from lemonpod.launch.options import CTX_SIZE
from lemonpod.launch.plan import Dialect
from lemonpod.launch.substitute import as_data

DEVICE: Final = "llamacpp_device"

_LEAST_EMBEDDING_CTX: Final = 8192
"""A request for embeddings holds several texts, and each must fit."""
_NO_OFFLOAD: Final = "--no-mmproj-offload"
_SPEC_TYPE: Final = "--spec-type"
_SPEC_LABELS: Final = ("mtp", "dflash")
_DFLASH: Final = "dflash"
_DFLASH_FILE: Final = re.compile(r"dflash(-.*|\.gguf)", re.IGNORECASE | re.DOTALL)
_LIBRARIES_BESIDE: Final = frozenset({Accelerator.ROCM, Accelerator.CUDA})

_RESERVED: Final = (
    frozenset(  # a line for what is one thing to llama-server, which a list of strings would hide
        """
    -m --model -hf -hfr --hf-repo -hff --hf-file -mr -mf
    -c --ctx-size
    -dev --device
    --port
    --jinja --no-jinja
    --metrics
    -mm --mmproj -mmu --mmproj-url --mmproj-auto --no-mmproj --no-mmproj-auto
    -md --model-draft --spec-draft-model
    --embedding --embeddings
    --rerank --reranking
    """.split()  # noqa: SIM905
    )
)


def _plan(start: Start) -> tuple[list[str], dict[str, str]]:
    hub = start.loads_from_hub
    args = ["-m", start.checkpoint("main")] if hub is None else ["-hf", as_data(hub, "checkpoint 'main'")]
    args += ["--ctx-size", str(_context(start))]
    device = start.options.get(DEVICE)
    if device is not None:
        args += ["--device", as_data(as_text(device.value), f"option '{DEVICE}'")]
    args += ["--port", str(start.port), "--jinja", "--metrics"]
    if "mmproj" in start.checkpoints and hub is None:
        args += ["--mmproj", start.checkpoint("mmproj")]
        args += [_NO_OFFLOAD] if start.accelerator is Accelerator.CPU else []
    if "draft" in start.checkpoints and _is_drafted(start.checkpoint("draft"), start.labels):
        args += ["--model-draft", start.checkpoint("draft")]
    args += ["--embeddings"] if start.mode is Mode.EMBEDDINGS else []
    args += ["--reranking"] if start.mode is Mode.RERANKING else []
    env = library_path(start) if start.accelerator in _LIBRARIES_BESIDE else {}
    return [*args, *_speculation(start)], {**env, **cuda_env(start, names_device=device is not None)}


def _context(start: Start) -> int:
    option = start.options.values[CTX_SIZE].value
    size = option if isinstance(option, int) else int(as_text(option))
    return max(size, _LEAST_EMBEDDING_CTX) if start.mode is Mode.EMBEDDINGS else size


def _is_drafted(path: str, labels: frozenset[str]) -> bool:
    return _DFLASH in labels or not _DFLASH_FILE.fullmatch(PurePath(path).name)


def _speculation(start: Start) -> list[str]:
    """Defaults by label, which the user's arguments replace."""
    given = {canonical(arg.partition("=")[0]) for arg in start.custom_args}
    label = next((label for label in _SPEC_LABELS if label in start.labels), None)
    return [] if label is None or _SPEC_TYPE in given else [_SPEC_TYPE, f"draft-{label}"]


def canonical(flag: str) -> str:
    """llama-server reads `--ctx_size` as `--ctx-size`."""
    return flag.replace("_", "-") if flag.startswith("--") else flag


LLAMACPP: Final = Base(
    recipe="llamacpp",
    display_name="llama.cpp",
    program="llama-server",
    section="llamacpp",
    options=(
        CustomOption(
            name=DEVICE,
            cli_flag="--llamacpp-device",
            default=None,
            help="The device that llama.cpp is to use, in its own words",
            type_name="DEVICE",
        ),
    ),
    renamed=MappingProxyType({"llamacpp_args": "args", "llamacpp_backend": "device"}),
    capabilities=(
        Capability.CHAT_COMPLETION,
        Capability.COMPLETION,
        Capability.RESPONSES,
        Capability.EMBEDDINGS,
        Capability.RERANKING,
        Capability.SLOTS,
        Capability.TOKENIZE,
    ),
    accelerators=MappingProxyType(
        {
            Os.LINUX: (Accelerator.CPU, Accelerator.CUDA, Accelerator.ROCM, Accelerator.VULKAN),
            Os.WINDOWS: (Accelerator.CPU, Accelerator.CUDA, Accelerator.ROCM, Accelerator.VULKAN),
            Os.DARWIN: (Accelerator.CPU, Accelerator.METAL),
        }
    ),
    probe=ready_at("/health"),
    reserved=_RESERVED,
    reserved_if_used=frozenset({_NO_OFFLOAD}),
    plan=_plan,
    engine_paths=MappingProxyType({Capability.SLOTS: "/slots", Capability.TOKENIZE: "/tokenize"}),
    dialect=Dialect.LLAMA_CPP,
    canonical=canonical,
)
