"""A hub that answers anything: a pull ends with an error of ours, and no model is taken for whole."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session
from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod.errors import LemonpodError, ModelPullError
from lemonpod.models.checkpoint import locate_all
from lemonpod.models.entry import CheckpointRef, Origin
from lemonpod.pull import worker
from lemonpod.pull.hub import Patience, search
from tests.fuzz.near import near
from tests.hub_site import HubSite, Repo, hub_site, listing_of

REPO: Final = Repo(
    {"m-Q4_0.gguf": b"GGUF" + bytes(1000), "sub/mmproj.gguf": b"GGUF small", "README.md": b"hi"}
)
LISTING: Final = listing_of("org/repo", REPO)
WISHES: Final = (
    {"main": "org/repo:Q4_0"},
    {"main": "org/repo:Q4_0", "mmproj": "org/repo:sub/mmproj.gguf"},
    {"main": "org/repo:README.md"},
)
TEXTS: Final = st.sampled_from(
    ["", "m-Q4_0.gguf", "sub", "sub/x", "../x", "/x", "a//b", "x" * 300, "x/" * 1200, "a\0", "\ud800", "é",
     "0" * 40, "0" * 64, "A" * 40, "0" * 41, "m-Q4-00001-of-00002.gguf", ".incomplete"]
)  # fmt: skip
ANYTHING: Final = st.recursive(
    st.none()
    | st.booleans()
    | TEXTS
    | st.sampled_from([0, 1, -1, 1004, 1 << 40, 1 << 64, 10**400, 0.5, 1e300, float("nan")]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["rfilename", "size", "blobId", "lfs", "sha256"]), inner, max_size=4
        )
    ),
    max_leaves=6,
)
BODIES: Final = st.sampled_from(
    [b"", b"{}", b"[]", b"null", b"5", b"<html>", b"\xff\xfe", b'{"error": 5}', b'{"errors": 5}',
     b'{"errors": ["x"]}', b'{"error": ["a", 1]}', b"[" * 2000, b"\x1f\x8b\x08",
     b"GGUF" + bytes(1000), b"GGUF" + bytes(999)]
)  # fmt: skip
HEADERS: Final = st.dictionaries(
    st.sampled_from(
        ["Location", "Content-Range", "Content-Encoding", "Content-Length", "Content-Type", "Retry-After",
         "X-Error-Code", "X-Error-Message", "Warning", "Set-Cookie", "Transfer-Encoding"]
    ),
    st.sampled_from(
        ["", "0", "5", "-1", "x", "é", "http://[", "http://127.0.0.1:1/", "//", "ftp://x",
         "/cdn/org/repo/resolve/README.md", "bytes 0-3/4", "bytes 5-9/10", "bytes x", "gzip", "br", "chunked",
         "identity", "9" * 400, "text/html", "EntryNotFound", "RepoNotFound", "GatedRepo", "a=b; x",
         "Access to this resource is disabled."]
    ),
    max_size=3,
)  # fmt: skip
ANSWERS: Final = st.tuples(
    st.sampled_from(
        [200, 206, 204, 301, 302, 304, 307, 400, 401, 403, 404, 408, 416, 418, 429, 500, 503, 999]
    ),
    HEADERS,
    BODIES,
)


@pytest.fixture(scope="module")
def site() -> Iterator[HubSite]:
    """One for all; this process asks it, since a new one for each pull would take a second."""
    with hub_site() as site, pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", site.url)
        patch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", site.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        patch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.5)
        patch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        patch.setattr(Patience, "first_wait", 0.0, raising=False)
        yield site
        close_session()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


def check(hub: Path, site: HubSite, wish: Mapping[str, str]) -> None:
    """Pull it: either everything is there and right, or nothing that would be taken for it."""
    shutil.rmtree(hub, ignore_errors=True)
    try:
        worker._pull(hub, wish, exact=False)
    except (LemonpodError, OSError):  # which the process for it tells of
        assert not list(hub.glob("*/snapshots/*/*"))
        assert not list(hub.glob("*/refs/*"))
        return
    refs = {name: CheckpointRef(text=text, origin=Origin.HUB) for name, text in wish.items()}
    for file in locate_all(refs, hub).values():
        assert file.path is not None, file.problem
        data = file.path.read_bytes()
        assert file.path.resolve().name in {
            hashlib.sha256(data).hexdigest(),
            hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(),
        }


@given(near(LISTING, ANYTHING).map(json.dumps), st.sampled_from(WISHES), BODIES | st.none())
@settings(max_examples=35)
def test_of_listings(
    site: HubSite, hub: Path, listing: str, wish: dict[str, str], instead: bytes | None
) -> None:
    site.repos["org/repo"] = REPO
    site.listing, site.content = listing.encode(), None
    check(hub, site, wish)
    if instead is not None:
        site.listing = instead
        check(hub, site, wish)


FOUND: Final = {"id": "org/repo", "tags": ["gguf"], "pipeline_tag": "text", "downloads": 5, "likes": 1}


@given(st.lists(near(FOUND, ANYTHING), max_size=3).map(json.dumps).map(str.encode) | BODIES)
@settings(max_examples=35)
def test_of_searches(site: HubSite, listing: bytes) -> None:
    site.listing = listing
    with suppress(ModelPullError):
        for found in search("x", limit=5, gguf=True):
            assert isinstance(found.repo, str)
            assert found.downloads >= 0


@given(ANSWERS, st.sampled_from(WISHES))
@settings(max_examples=35)
def test_of_contents(
    site: HubSite, hub: Path, answer: tuple[int, dict[str, str], bytes], wish: dict[str, str]
) -> None:
    site.repos["org/repo"] = REPO
    site.listing, site.content = None, answer
    check(hub, site, wish)


@given(st.lists(st.tuples(st.integers(400, 599), HEADERS), min_size=1, max_size=6), st.sampled_from(WISHES))
@settings(max_examples=30)
def test_of_refusals(
    site: HubSite, hub: Path, refusals: list[tuple[int, dict[str, str]]], wish: dict[str, str]
) -> None:
    site.repos["org/repo"] = REPO
    site.listing = site.content = None
    site.refuse = [*refusals]
    check(hub, site, wish)
    site.refuse.clear()


def test_of_silence(site: HubSite, hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.05)
    monkeypatch.setattr(site, "silent", True)
    with pytest.raises(ModelPullError, match=r"cannot be reached: .*timed out"):
        worker._pull(hub, WISHES[0], exact=False)
