"""What an engine gets of the server's environment: the names listed here, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from lemonpod.launch.secrets import is_secret

MARKER: Final = "LEMONPOD_ENGINE"
"""Holds `<run>/<number>` in every engine and all it starts, so that none is lost by detaching itself."""

INHERITED: Final = frozenset(
    {
        # Who and where.
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "DBUS_SESSION_BUS_ADDRESS",
        # Models and certificates.
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_HUB_OFFLINE",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        # Which devices may be used.
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "HSA_OVERRIDE_GFX_VERSION",
        "GGML_VK_VISIBLE_DEVICES",
        "VK_DRIVER_FILES",
        "VK_ICD_FILENAMES",
        "ONEAPI_DEVICE_SELECTOR",
        "ZE_AFFINITY_MASK",
        "OMP_NUM_THREADS",
        # Container runtimes that an engine's command may call.
        "CONTAINER_HOST",
        "CONTAINERS_CONF",
        "CONTAINERS_STORAGE_CONF",
        "DOCKER_CONFIG",
        "DOCKER_CONTEXT",
        "DOCKER_HOST",
    }
)
INHERITED_PREFIXES: Final = ("LC_",)

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Where the server itself has none."""


def engine_environment(
    inherited: Mapping[str, str], added: Mapping[str, str], *, marker: str, programs: str
) -> dict[str, str]:
    """The environment of an engine that is a process: what it may inherit, then what the manifest adds.

    `programs` is the folder of our own environment's console programs: it is searched last, and not at all
    where the manifest sets a PATH of its own.
    """
    path = os.pathsep.join([inherited.get("PATH") or DEFAULT_PATH, programs])
    return {**inheritable({**inherited, "PATH": path}), **added, MARKER: marker}


def inheritable(environ: Mapping[str, str]) -> dict[str, str]:
    """What of `environ` engines, and the command lines that stand for one, may see."""
    return {name: value for name, value in environ.items() if _may_inherit(name)}


def _may_inherit(name: str) -> bool:
    listed = name in INHERITED or name.startswith(INHERITED_PREFIXES)
    return listed and not is_secret(name)
