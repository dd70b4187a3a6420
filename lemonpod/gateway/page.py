"""The page at `/`: what runs and what was refused, for a person with a browser. No script, nothing loaded."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

from aiohttp import web

import lemonpod
from lemonpod.gateway import keys
from lemonpod.gateway.auth import may_use
from lemonpod.gateway.health import health_document
from lemonpod.gateway.middlewares import authorization_of
from lemonpod.inventory.inventory import Inventory
from lemonpod.inventory.servable import Servable

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --dim: #888; --good: #2a8a4a; --bad: #c0392b; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.5rem; margin: 0; } h1 small { color: var(--dim); font-weight: normal; font-size: 1rem; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; }
tr { border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 500; font-size: .85rem; }
p.none, footer { color: var(--dim); } code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { white-space: pre-wrap; margin: 0; } td { overflow-wrap: anywhere; min-width: 4.5rem; }
.ready, .in_use { color: var(--good); } .failed { color: var(--bad); }
"""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_REFRESH_SECONDS: Final = 5


async def page(request: web.Request) -> web.Response:
    """The status page. Who has no key, where one is set, learns only that the server runs."""
    if may_use(authorization_of(request), request.app[keys.SETTINGS]):
        sections = _sections(health_document(request.app), request.app[keys.INVENTORY])
    else:
        sections = '<p class="none">An API key is set: ask <code>/api/v1/health</code> with it.</p>'
    text = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="{_REFRESH_SECONDS}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>lemonpod</title><style>{_STYLE}</style></head><body>"
        f"<h1>lemonpod <small>{escape(lemonpod.__version__)}</small></h1>{sections}"
        "<footer><p>OpenAI's and Lemonade's routes: <code>/api/v1</code></p></footer></body></html>\n"
    )
    return web.Response(text=text, content_type="text/html", headers=_HEADERS)


def _sections(health: dict[str, Any], inventory: Inventory) -> str:
    known = [*health["all_models_loaded"], *health["failed_models"]]
    names = {item["model_name"] for item in known}
    idle = (servable for servable in inventory.servables() if servable.entry.id not in names)
    models = [*map(_known_row, known), *map(_idle_row, idle)]
    recipes = [
        _row(_code(name), escape(found.manifest.display_name), _code(found.source.path))
        for name, found in sorted(inventory.catalog.descriptors.items())
    ]
    rejected = [
        _row(
            _code(item.path),
            "<br>".join(escape(str(problem)) for problem in item.problems),
            "the last good version" if item.kept else "nothing",
        )
        for item in inventory.catalog.rejected
    ]
    return "".join(
        (
            _table(
                "Refused manifests", ("File", "Reason", "In use"), rejected, "None: every manifest is fine."
            ),
            _table("Models", ("Model", "Recipe", "State", "Pid", "Why"), models, "No model is registered."),
            _table("Recipes", ("Recipe", "Name", "Manifest"), recipes, "No manifest was found."),
        )
    )


def _known_row(item: dict[str, Any]) -> str:
    failed = item["reason"] is not None
    state = "failed" if failed else item["status"]
    return _row(
        _code(item["model_name"]),
        escape(item["recipe"] or ""),
        f'<span class="{escape(state)}">{escape(state)}</span>',
        "" if failed else escape(str(item["pid"] or "")),
        f"<pre>{escape(item['reason'] or '')}</pre>",
    )


def _idle_row(servable: Servable) -> str:
    why = escape(servable.recipe_problem or "")
    return _row(_code(servable.entry.id), escape(servable.entry.recipe), "not loaded", "", why)


def _table(title: str, heads: Sequence[str], rows: Sequence[str], empty: str) -> str:
    if not rows:
        return f'<h2>{title}</h2><p class="none">{empty}</p>'
    head = "".join(f"<th>{head}</th>" for head in heads)
    return f"<h2>{title}</h2><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _row(*cells: str) -> str:
    return f"<tr>{''.join(_cells(cells))}</tr>"


def _cells(cells: Iterable[str]) -> Iterable[str]:
    return (f"<td>{cell}</td>" for cell in cells)


def _code(value: object) -> str:
    return f"<code>{escape(str(value))}</code>"
