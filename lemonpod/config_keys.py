"""The global keys of `config.json`: Lemonade's, and `lemonpod` for what is ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

THRESHOLD: Final = "auto_evict_threshold_pct"

USED_KEYS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "host": str,
        "port": int,
        "log_level": str,
        "models_dir": str,
        "ctx_size": int,
        "extra_models_dir": str,
        "offline": bool,
        "max_loaded_models": int,
        "auto_evict": bool,
        THRESHOLD: float,
        "downsize_idle_timeout": float,
        "evict_idle_timeout": float,
        "evict_weight_factor": float,
        "lemonpod": dict,
    }
)
LAUNCH_OPTIONS: Final = (
    "ctx_size",
    "auto_evict",
    "downsize_idle_timeout",
    "evict_idle_timeout",
    "evict_weight_factor",
)
"""Those of them that are options of models, for models that set none."""
UNUSED_KEYS: Final = frozenset(
    {
        "auto_check_model_updates",
        "broadcast",
        "cloud_providers",
        "config_version",
        "default_model_source",
        "disable_model_filtering",
        "enable_dgpu_gtt",
        "global_timeout",
        "inhibit_suspend",
        "no_fetch_executables",
        "rocm_channel",
        "rocm_install_method",
        "telemetry",
        "websocket_port",
    }
)
"""Lemonade's others: a user's file works unchanged, and they change nothing here."""
