"""Bodies in a form that equal containers share: without defaults, and without order where there is none."""

from __future__ import annotations

from typing import Any, Final

DOCKER_DEFAULTS: Final = {"AttachStdin": False, "AttachStdout": True, "AttachStderr": True}
HOST_DEFAULTS: Final = {
    "NetworkMode": "default",
    "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
    "Memory": 0,
    "MemorySwappiness": -1,
    "NanoCpus": 0,
    "PidsLimit": 0,
    "ShmSize": 0,
    "SecurityOpt": [],
}
PODMAN_DEFAULTS: Final = {
    "cgroups_mode": "enabled",
    "httpproxy": True,
    "image_volume_mode": "anonymous",
    "init": False,
    "manage_password": True,
    "no_new_privileges": False,
    "sdnotifyMode": "container",
    "seccomp_policy": "default",
    "stop_timeout": 10,
    "systemd": "true",
    "umask": "0022",
}
REMARKS: Final = ("io.kubernetes.cri-o.TTY",)
"""Annotations that podman 4's program writes for its own inspect."""
OURS: Final = frozenset({"AutoRemove", "remove", "volatile"})
"""The engine's own removal, which is not asked for."""
READ_WRITE: Final = "read_write_tmpfs"
"""For podman 5, which adds by itself what the recorded podman 4 mounts; that one does not know the word."""


def docker_form(body: dict[str, Any]) -> dict[str, Any]:
    host = {
        key: value
        for key, value in body.get("HostConfig", {}).items()
        if key not in OURS and value != HOST_DEFAULTS.get(key, None)
    }
    if "SecurityOpt" in host:
        host["SecurityOpt"] = [one if "=" in one else one.replace(":", "=", 1) for one in host["SecurityOpt"]]
    if host.get("RestartPolicy", {}).get("Name") == "":
        del host["RestartPolicy"]
    if "Binds" in host:
        host["Binds"] = sorted(host["Binds"])
    form: dict[str, Any] = {
        key: value
        for key, value in {**body, "HostConfig": host}.items()
        if value != DOCKER_DEFAULTS.get(key, None)
    }
    if "Env" in form:
        form["Env"] = sorted(form["Env"])
    return form


def podman_form(body: dict[str, Any]) -> dict[str, Any]:
    form = {
        key: without_zeros(value)
        for key, value in body.items()
        if PODMAN_DEFAULTS.get(key) != value and key not in OURS | {READ_WRITE}
    }
    # Where the recording has no word at all, it was changed from on to off.
    if body.get("httpproxy") is False:
        del form["httpproxy"]
    form["annotations"] = {
        key: value for key, value in body.get("annotations", {}).items() if not key.startswith(REMARKS)
    }
    for key in ("mounts", "volumes"):
        form[key] = sorted(form.get(key, []), key=str)
    return {key: value for key, value in form.items() if value not in ({}, [])}


def without_zeros(value: Any) -> Any:
    """Go's zero values say nothing; `false` in a mapping of users does."""
    if isinstance(value, list):
        return [without_zeros(one) for one in value]
    if not isinstance(value, dict):
        return value
    cleaned = {key: without_zeros(one) for key, one in value.items()}
    return {
        key: one
        for key, one in cleaned.items()
        if one or (key in {"HostUIDMapping", "HostGIDMapping", "interface_name", "limit"} and one != {})
    }
