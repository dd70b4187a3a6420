"""Messages of engines tell nothing of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemonpod.launch.plan import Resolved
from lemonpod.launch.scrub import scrub
from tests.factories import make_plan

PLAN = make_plan(
    *(
        "/opt/llama/bin/llama-server",
        "-m",
        "/home/mé/.cache/hub/models--a/snapshots/1/m.gguf",
        "--port",
        "8001",
    ),
    *("--mmproj=/srv/my models/proj.gguf", "-v", "/data:/models:ro", "--api-key", "sesame-open"),
    port=8001,
    cwd=Path("/var/lib/lemonpod/run"),
    env={"HF_TOKEN": "correct-horse", "USE_AUTH": "1", "CACHE": "/mnt/big/cache/"},
    values={"{model}": Resolved("/home/mé/.cache/hub/models--a/snapshots/1/m.gguf", "default")},
)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("cannot open /home/mé/.cache/hub/models--a/snapshots/1/m.gguf", "cannot open …/m.gguf"),
        ("cannot open '/home/mé/.cache/hub/models--a/blobs/abc': no", "cannot open '…/abc': no"),
        ("in /home/mé: none", "in …: none"),
        ("see /home/mé/other/", "see …/"),
        ("from /srv/my models/proj.gguf.", "from …/proj.gguf."),
        ("/data/x and /models/y, not /database/z", "…/x and …/y, not /database/z"),
        ('File "/opt/llama/lib/a.py", line 3', 'File "…/a.py", line 3'),
        ("file:///var/lib/lemonpod/run/x", "file://…/x"),
        (r"{\"path\": \"\/opt\/llama\/x\"}", r"{\"path\": \"…/x\"}"),
        (json.dumps("/home/mé/x/y"), '"…/y"'),
        ("POST /v1/chat/completions", "POST /v1/chat/completions"),
        ("http://127.0.0.1/data/x", "http://127.0.0.1/data/x"),
        ("1 of 8001, /etc/hosts", "1 of 8001, /etc/hosts"),
        ("wrong key sesame-open, token correct-horse", "wrong key …, token …"),
        ("Authorization: Bearer abc123", "Authorization: Bearer …"),
        ("Bearer authentication is needed", "Bearer authentication is needed"),
        ("Incorrect API key provided: sk-abcdefghijklmnop", "Incorrect API key provided: …"),
        ("?api_key=abc&x=1", "?api_key=…&x=1"),
        ('{"api_key":"abc","password": null}', '{"api_key":"…","password": null}'),
        (r'{"message":"{\"secret\":\"abc\"}"}', r'{"message":"{\"secret\":\"…\"}"}'),
        ("unexpected token: '}'", "unexpected token: '}'"),
        ("", ""),
    ],
)
def test_paths_and_credentials_are_taken_out(said: str, shown: str) -> None:
    assert scrub(said, PLAN) == shown


def test_a_plan_without_paths_hides_none() -> None:
    assert scrub("/opt/x", make_plan("engine", port=1)) == "/opt/x"
    assert scrub("/opt/x", make_plan("engine", "/", port=1, cwd=Path("/"))) == "/opt/x"


TEXT = st.text() | st.sampled_from(["/opt/llama/a", "/home/mé/x y", "sesame-open", "password=x", "api_key"])


@given(st.dictionaries(TEXT, TEXT | st.none() | st.integers() | st.lists(TEXT)), st.booleans())
def test_json_stays_json(document: dict[str, object], ascii_only: bool) -> None:
    text = scrub(json.dumps(document, ensure_ascii=ascii_only), PLAN)

    assert isinstance(json.loads(text), dict)
    assert "sesame-open" not in text
    assert "/opt/llama" not in text
    assert scrub(text, PLAN) == text
