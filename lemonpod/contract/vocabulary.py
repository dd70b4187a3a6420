"""The closed words of the manifest language, and the routes each capability opens (RFC section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias, Union

API_CONTRACT_VERSION: Final = "1"

LAUNCH_PLAN_BASES: Final = ("llamacpp", "whispercpp", "sd-cpp")
"""The built-in backends whose command line a `variant_of` recipe can take (RFC section 7)."""

BUILTIN_RECIPES: Final = frozenset(
    {
        *LAUNCH_PLAN_BASES,
        "flm",
        "ryzenai-llm",
        "vllm",
        "moonshine",
        "onnxruntime",
        "trellis",
        "acestep",
        "thinksound",
        "thenoise",
        "openmoss",
    }
)
"""Names that belong to Lemonade's own backends, which no manifest may take."""

RESOLVABLE_ENV: Final = frozenset(
    {"HF_HOME", "HF_HUB_CACHE", "TRANSFORMERS_CACHE", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
"""The variables of the server's environment that `{env:NAME}` may read; none of them holds a secret."""

# The names that Lemonade documents are LD_PRELOAD, LD_AUDIT, LD_LIBRARY_PATH, DYLD_INSERT_LIBRARIES and
# DYLD_LIBRARY_PATH. The loaders keep adding to both families, and glibc loads code from GCONV_PATH too.
_LOADER_PREFIXES: Final = ("LD_", "DYLD_")
_LOADER_NAMES: Final = frozenset({"GCONV_PATH"})


def is_loader_variable(name: str) -> bool:
    """Whether the dynamic loader takes orders, and so code, from the environment variable `name`."""
    return name.startswith(_LOADER_PREFIXES) or name in _LOADER_NAMES


# A recursive alias needs the quoted names, and so typing.Union, on Python 3.11.
JsonValue: TypeAlias = Union[bool, int, float, str, list["JsonValue"], dict[str, "JsonValue"], None]  # noqa: UP007


class Os(StrEnum):
    LINUX = "linux"
    DARWIN = "darwin"
    WINDOWS = "windows"


class Accelerator(StrEnum):
    CPU = "cpu"
    GPU = "gpu"
    ROCM = "rocm"
    CUDA = "cuda"
    VULKAN = "vulkan"
    METAL = "metal"
    ONEAPI = "oneapi"
    NPU = "npu"
    TPU = "tpu"


class Capability(StrEnum):
    CHAT_COMPLETION = "chat_completion"
    COMPLETION = "completion"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    RERANKING = "reranking"
    TRANSCRIPTION = "transcription"
    STREAMING_TRANSCRIPTION = "streaming_transcription"
    TTS = "tts"
    CLASSIFICATION = "classification"
    IMAGE = "image"
    AUDIO_GENERATION = "audio_generation"
    MODEL_3D = "model_3d"
    SLOTS = "slots"
    TOKENIZE = "tokenize"


class Mode(StrEnum):
    """What a loaded model is deployed as; a model has exactly one."""

    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    RERANKING = "reranking"
    TRANSCRIPTION = "transcription"
    TTS = "tts"
    CLASSIFICATION = "classification"
    IMAGE = "image"
    AUDIO_GENERATION = "audio-generation"
    MODEL_3D = "3d"


class SlotPolicy(StrEnum):
    STANDARD = "standard"
    EXCLUSIVE_NPU = "exclusive_npu"
    COEXIST_BY_TYPE = "coexist_by_type"
    UNMETERED = "unmetered"


class ModelManagement(StrEnum):
    LEMOND_MANAGED = "lemond_managed"
    SELF_MANAGED = "self_managed"


class VersionPolicy(StrEnum):
    PINNED = "pinned"
    ROLL_FORWARD = "roll_forward"


class ProbeType(StrEnum):
    HTTP = "http"
    TCP = "tcp"
    PROCESS = "process"


class Kind(StrEnum):
    CORE = "core"
    EXTENSION = "extension"
    PLUMBING = "plumbing"


class Body(StrEnum):
    """The form of a request's body."""

    NONE = "none"
    JSON = "json"
    MULTIPART = "multipart"
    SOCKET = "socket"
    """No body, but a WebSocket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSpec:
    """One fixed route: `path` below each API prefix, and the engine's own path unless remapped.

    A path may hold `{id}`, which stands for the same text on both sides.
    """

    path: str
    engine_path: str
    operation: str
    """Name of the operation in `<operation> not supported by <device>`."""
    method: str = "POST"
    body: Body = Body.JSON
    required: tuple[str, ...] = ()
    """Fields without which a request is refused before it reaches an engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilitySpec:
    kind: Kind
    mode: Mode | None
    routes: tuple[RouteSpec, ...]
    variant_only: bool = False


def _post(
    path: str,
    operation: str,
    *,
    engine: str | None = None,
    body: Body = Body.JSON,
    required: tuple[str, ...] = (),
) -> RouteSpec:
    return RouteSpec(
        path=path, engine_path=engine or f"/v1{path}", operation=operation, body=body, required=required
    )


CAPABILITIES: Final[Mapping[Capability, CapabilitySpec]] = MappingProxyType(
    {
        Capability.CHAT_COMPLETION: CapabilitySpec(
            kind=Kind.CORE,
            mode=Mode.CHAT,
            routes=(_post("/chat/completions", "Chat completion"),),
        ),
        Capability.COMPLETION: CapabilitySpec(
            kind=Kind.CORE, mode=Mode.CHAT, routes=(_post("/completions", "Completion"),)
        ),
        Capability.RESPONSES: CapabilitySpec(
            kind=Kind.EXTENSION, mode=Mode.CHAT, routes=(_post("/responses", "Responses"),)
        ),
        Capability.EMBEDDINGS: CapabilitySpec(
            kind=Kind.CORE, mode=Mode.EMBEDDINGS, routes=(_post("/embeddings", "Embeddings"),)
        ),
        Capability.RERANKING: CapabilitySpec(
            kind=Kind.CORE,
            mode=Mode.RERANKING,
            routes=(
                _post("/rerank", "Reranking"),
                _post("/reranking", "Reranking", engine="/v1/rerank"),
                _post("/reranker", "Reranking", engine="/v1/rerank"),
            ),
        ),
        Capability.TRANSCRIPTION: CapabilitySpec(
            kind=Kind.CORE,
            mode=Mode.TRANSCRIPTION,
            routes=(
                _post(
                    "/audio/transcriptions",
                    "Audio transcription",
                    body=Body.MULTIPART,
                    required=("file", "model"),
                ),
            ),
        ),
        Capability.STREAMING_TRANSCRIPTION: CapabilitySpec(
            kind=Kind.EXTENSION,
            mode=Mode.TRANSCRIPTION,
            routes=(
                RouteSpec(
                    path="/realtime",
                    engine_path="/v1/realtime",
                    operation="Streaming transcription",
                    method="GET",
                    body=Body.SOCKET,
                ),
            ),
            variant_only=True,
        ),
        Capability.TTS: CapabilitySpec(
            kind=Kind.CORE,
            mode=Mode.TTS,
            routes=(_post("/audio/speech", "Text to speech", required=("model", "input")),),
        ),
        Capability.CLASSIFICATION: CapabilitySpec(
            kind=Kind.EXTENSION,
            mode=Mode.CLASSIFICATION,
            routes=(_post("/classify", "Classification"),),
        ),
        Capability.IMAGE: CapabilitySpec(
            kind=Kind.CORE,
            mode=Mode.IMAGE,
            routes=(
                _post("/images/generations", "Image generation"),
                _post("/images/edits", "Image editing", body=Body.MULTIPART),
                _post("/images/variations", "Image variations", body=Body.MULTIPART),
            ),
        ),
        Capability.AUDIO_GENERATION: CapabilitySpec(
            kind=Kind.EXTENSION,
            mode=Mode.AUDIO_GENERATION,
            routes=(_post("/audio/generations", "Audio generation"),),
        ),
        Capability.MODEL_3D: CapabilitySpec(
            kind=Kind.EXTENSION,
            mode=Mode.MODEL_3D,
            routes=(_post("/3d/generations", "3D generation"),),
        ),
        Capability.SLOTS: CapabilitySpec(
            kind=Kind.PLUMBING,
            mode=None,
            routes=(
                RouteSpec(
                    path="/slots",
                    engine_path="/v1/slots",
                    operation="Slots",
                    method="GET",
                    body=Body.NONE,
                ),
                _post("/slots/{id}", "Slots"),
            ),
        ),
        Capability.TOKENIZE: CapabilitySpec(
            kind=Kind.PLUMBING, mode=None, routes=(_post("/tokenize", "Tokenization", required=("content",)),)
        ),
    }
)


def modes_of(capabilities: Iterable[Capability]) -> tuple[Mode, ...]:
    """The modes that the capabilities stand for, each once, in the order of their first mention."""
    modes = (CAPABILITIES[capability].mode for capability in capabilities)
    return tuple(dict.fromkeys(mode for mode in modes if mode is not None))
