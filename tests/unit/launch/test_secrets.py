"""What of a command line is not shown to whoever asks what runs."""

from __future__ import annotations

import pytest

from lemonpod.launch.secrets import without_secrets


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        ("podman run -e HF_TOKEN=s image", "podman run -e HF_TOKEN=… image"),
        ("podman run --env=MY_PASSWORD=s=t image", "podman run --env=MY_PASSWORD=… image"),
        ("podman run -eOPENAI_KEY=s image", "podman run -eOPENAI_KEY=… image"),
        ("env API_KEY=s engine", "env API_KEY=… engine"),
        ("engine --api-key s --port 1", "engine --api-key … --port 1"),
        ("engine --hf-token=s", "engine --hf-token=…"),
        ("engine -token s", "engine -token …"),
        ("engine --token --token --port", "engine --token … --port"),
    ],
)
def test_credentials_are_blanked(argv: str, shown: str) -> None:
    assert without_secrets(argv.split()) == shown.split()


@pytest.mark.parametrize(
    "argv",
    [
        "podman run -e HF_TOKEN -e HF_HOME=/x --env-file /f --authfile /a --security-opt label=disable image",
        "podman run -v /tokens:/auth -p 127.0.0.1:1:2 reg/token:1@sha256:abc",
        "engine --max-tokens 40 --max-tokens=40 --api-key-file /k --tokenizer=/t --no-auth",
        "engine -e HF_TOKEN=",
        "engine --api-key",
    ],
)
def test_everything_else_is_shown(argv: str) -> None:
    assert without_secrets(argv.split()) == argv.split()
