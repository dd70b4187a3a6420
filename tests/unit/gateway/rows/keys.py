"""Who may ask (part B2).

The ways in which a WebSocket carries its key are asked in test_handshake (`test_each_way_to_carry_a_key`,
`test_without_the_key_no_engine_is_asked`) and test_logs_stream (`test_each_way_to_carry_a_key`,
`test_a_wrong_key_opens_nothing`).
"""

from __future__ import annotations

from typing import Final

from lemonpod.gateway.settings import GatewaySettings
from tests.unit.gateway.rows.row import ADMIN, CHAT, KEY, Row, anything, has

NO_KEY: Final = {"error": "Invalid or missing API key"}
NO_ADMIN: Final = {"error": "Invalid or missing admin API key"}
ONLY_ADMIN: Final = GatewaySettings(admin_api_key="a")

KEYS: Final = (
    *(
        Row(f"{path} without its key", "GET", path, 401, NO_KEY, settings=KEY)
        for path in (
            *("/api/v0/models", "/api/v1/models", "/v0/health", "/v1/stats", "/api/tags", "/metrics", "/mcp"),
            *("/v1/registry/search?query=abc", "/v1/jobs", "/realtime", "/logs/stream"),
        )
    ),
    *(
        Row(f"{path} without its key, asked with POST", "POST", path, 401, NO_KEY, {}, settings=KEY)
        for path in ("/v1/chat/completions", "/v1/load", "/v1/install", "/v1/models/check-updates", "/mcp")
    ),
    *(
        Row(
            f"{path} with {header}",
            method,
            path,
            200,
            anything,
            body,
            {header: value},
            settings=settings,
        )
        for header, value, admin in (
            ("Authorization", "Bearer k", "Bearer a"),
            ("authorization", "bearer k", "bearer a"),
            ("X-Api-Key", "k", "a"),
        )
        for method, path, body, value, settings in (
            ("GET", "/v1/models", None, value, KEY),
            ("GET", "/api/tags", None, value, KEY),
            ("POST", "/v1/chat/completions", CHAT, value, KEY),
            ("POST", "/v1/messages", CHAT | {"max_tokens": 5}, value, KEY),
            ("GET", "/v1/models", None, admin, ADMIN),
            ("POST", "/v1/chat/completions", CHAT, admin, ADMIN),
            ("GET", "/internal/engines", None, admin, ADMIN),
            ("GET", "/internal/config", None, value, KEY),
        )
    ),
    *(
        Row(
            f"another key in {header}",
            "GET",
            "/v1/models",
            401,
            NO_KEY,
            headers={header: value},
            settings=ADMIN,
        )
        for header, value in (
            ("Authorization", "Bearer x"),
            ("Authorization", "Basic k"),
            ("Authorization", "k"),
            ("X-Api-Key", "x"),
            ("X-Api-Key", ""),
        )
    ),
    Row(
        "Authorization counts where there are both",
        "GET",
        "/v1/models",
        401,
        NO_KEY,
        headers={"Authorization": "Bearer x", "X-Api-Key": "k"},
        settings=KEY,
    ),
    *(
        Row(f"{method} {path} without its key", method, path, 401, NO_ADMIN, {}, settings=KEY)
        for method, path in (
            ("GET", "/internal/engines"),
            ("GET", "/internal/config"),
            ("POST", "/internal/set"),
            ("POST", "/internal/shutdown"),
            ("POST", "/internal/cleanup-cache"),
            ("GET", "/internal/mcp/servers"),
            ("GET", "/internal/nothing"),
        )
    ),
    *(
        Row(
            f"a user's key in {header} does not administer",
            "POST",
            "/internal/set",
            401,
            NO_ADMIN,
            {"ctx_size": 1},
            headers={header: value},
            settings=ADMIN,
        )
        for header, value in (("Authorization", "Bearer k"), ("X-Api-Key", "k"))
    ),
    Row(
        "with an administrator's key alone the API is open",
        "GET",
        "/v1/models",
        200,
        has("data"),
        settings=ONLY_ADMIN,
    ),
    Row("/internal is not", "GET", "/internal/engines", 401, NO_ADMIN, settings=ONLY_ADMIN),
    *(
        Row(f"{method} {path} needs no key", method, path, status, settings=ADMIN)
        for method, path, status in (
            ("GET", "/live", 200),
            ("HEAD", "/live", 200),
            ("OPTIONS", "/v1/models", 204),
            ("OPTIONS", "/internal/set", 204),
        )
    ),
)
