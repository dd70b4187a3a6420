"""Which web pages may call (CORS): those of this machine, and those the operator names."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from lemonpod.gateway.errors import Answer

ORIGIN_NOT_ALLOWED = Answer(403, {"error": "Origin not allowed"})


def is_allowed(origin: str, *, host: str, allowed: Collection[str]) -> bool:
    """Whether a page of `origin` may use a server that it reached as `host`.

    A page of the server's own address is fine where that address is a number: a name could be
    rebound to this machine by whoever owns it.
    """
    if "*" in allowed or origin.lower() in {entry.rstrip("/").lower() for entry in allowed}:
        return True
    try:
        parts = urlsplit(origin)
        name = parts.hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or parts.netloc == host
