"""Downloads over real HTTPS: gone on with, begun again, given up, each for a reason."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lemonpod.errors import DownloadError, InstallError
from lemonpod.install import fetch as fetching
from lemonpod.install.fetch import fetch
from lemonpod.install.partial import Partial
from tests.https_site import Certificates, Site, serving

DATE = "Mon, 01 Jan 2024 00:00:00 GMT"
CONTENT = bytes(range(256)) * 4096


def run(source: str, folder: Path, *, pinned: bool = True, pauses: list[float] | None = None) -> Partial:
    partial = Partial(folder, source)
    report: Callable[..., None] = lambda *_: None  # noqa: E731
    fetch(source, partial, pinned=pinned, report=report, pause=(pauses if pauses is not None else []).append)
    return partial


def begin(source: str, folder: Path, site: Site, path: str, size: int) -> None:
    """Have an earlier command leave the first `size` bytes."""
    page = site.pages[path]
    page.break_after = [size, 0, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadError, match="run the command again"):
        run(source, folder)
    page.break_after = []
    site.asked.clear()
    assert Partial(folder, source).size == size


def test_a_whole_file(site: Site, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    source = site.add("/a", CONTENT)
    partial = Partial(tmp_path, source)
    fetch(source, partial, pinned=True, report=lambda *told: seen.append(told))

    assert partial.path.read_bytes() == CONTENT
    assert (seen[0], seen[-1]) == ((0, len(CONTENT)), (len(CONTENT), len(CONTENT)))
    assert site.asked == [("/a", None, None)]


def test_a_break_is_gone_on_with_at_once(site: Site, tmp_path: Path) -> None:
    pauses: list[float] = []
    source = site.add("/a", CONTENT, break_after=[300_000, 400_000])

    assert run(source, tmp_path, pauses=pauses).path.read_bytes() == CONTENT
    assert site.asked == [("/a", None, None), ("/a", "bytes=300000-", '"1"'), ("/a", "bytes=700000-", '"1"')]
    assert pauses == [0, 0]


def test_a_later_command_goes_on(site: Site, tmp_path: Path) -> None:
    source = site.add("/a", CONTENT)
    begin(source, tmp_path, site, "/a", 5000)

    assert run(source, tmp_path).path.read_bytes() == CONTENT
    assert site.asked == [("/a", "bytes=5000-", '"1"')]


def test_what_is_complete_is_not_asked_for(site: Site, tmp_path: Path) -> None:
    source = site.add("/a", CONTENT)
    run(source, tmp_path)
    site.asked.clear()

    assert run(source, tmp_path).path.read_bytes() == CONTENT
    assert site.asked == []


def test_what_rolls_forward_is_asked_for_again(site: Site, tmp_path: Path) -> None:
    source = site.add("/a", CONTENT)
    run(source, tmp_path, pinned=False)
    site.add("/a", b"next", etag='"2"')

    assert run(source, tmp_path, pinned=False).path.read_bytes() == b"next"


@pytest.mark.parametrize(
    "page",
    [{"ranges": False}, {"etag": '"2"'}, {"etag": None, "last_modified": DATE}, {"wrong_range": True}],
    ids=["ranges ignored", "another file", "named otherwise", "another range"],
)  # fmt: skip
def test_what_cannot_be_gone_on_with_begins_again(site: Site, tmp_path: Path, page: dict[str, Any]) -> None:
    source = site.add("/a", CONTENT)
    begin(source, tmp_path, site, "/a", 5000)
    site.add("/a", CONTENT[::-1], **page)

    assert run(source, tmp_path).path.read_bytes() == CONTENT[::-1]


def test_a_shorter_file_begins_again(site: Site, tmp_path: Path) -> None:
    source = site.add("/a", CONTENT)
    begin(source, tmp_path, site, "/a", 5000)
    site.add("/a", b"short")

    assert run(source, tmp_path).path.read_bytes() == b"short"


def test_by_last_modified(site: Site, tmp_path: Path) -> None:
    source = site.add("/a", CONTENT, etag='W/"1"', last_modified=DATE, break_after=[1000])

    assert run(source, tmp_path).path.read_bytes() == CONTENT
    assert site.asked[-1] == ("/a", "bytes=1000-", DATE)


@pytest.mark.parametrize(("pinned", "asked"), [(True, "bytes=1000-"), (False, None)])
def test_a_file_without_a_name_of_its_content(
    site: Site, tmp_path: Path, pinned: bool, asked: str | None
) -> None:
    """Only a digest can tell whether two parts are of one file."""
    source = site.add("/a", CONTENT, etag=None, break_after=[1000])

    assert run(source, tmp_path, pinned=pinned).path.read_bytes() == CONTENT
    assert site.asked[-1] == ("/a", asked, None)


def test_damaged_notes_know_nothing(site: Site, tmp_path: Path) -> None:
    source = site.add("/a", CONTENT)
    begin(source, tmp_path, site, "/a", 5000)
    (notes,) = tmp_path.glob("*.json")
    notes.write_text("{")

    assert run(source, tmp_path).path.read_bytes() == CONTENT
    assert site.asked == [("/a", "bytes=5000-", None)]
    assert json.loads(notes.read_text())["total"] == len(CONTENT)


def test_a_drop_at_a_time_is_no_progress(site: Site, tmp_path: Path) -> None:
    """Else it would be asked as often as the file has bytes."""
    source = site.add("/a", CONTENT, break_after=[1] * 100)
    with pytest.raises(DownloadError, match="it broke off after 5 of"):
        run(source, tmp_path)

    assert len(site.asked) == 5


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_file_of_ours_is_left_alone(site: Site, tmp_path: Path, kind: str) -> None:
    source = site.add("/a", CONTENT)
    path = Partial(tmp_path, source).path
    other = tmp_path / "other"
    other.write_text("of somebody else")
    match kind:
        case "link":
            path.symlink_to(other)
        case "folder":
            path.mkdir()
        case _:
            os.mkfifo(path)

    with pytest.raises(InstallError, match="is no download"):
        run(source, tmp_path)
    assert other.read_text() == "of somebody else"


def test_a_server_that_does_better_in_a_moment(site: Site, tmp_path: Path) -> None:
    pauses: list[float] = []
    source = site.add("/a", CONTENT, statuses=[503, 429])

    assert run(source, tmp_path, pauses=pauses).path.read_bytes() == CONTENT
    assert pauses == [0, 1]


def test_a_server_that_never_does(site: Site, tmp_path: Path) -> None:
    pauses: list[float] = []
    source = site.add("/a", CONTENT, status=500)

    with pytest.raises(DownloadError, match=r"download failed: 127.0.0.1:[0-9]+ answers 500"):
        run(source, tmp_path, pauses=pauses)
    assert pauses == [0, 1, 3, 7]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_told_at_once(site: Site, tmp_path: Path, status: int) -> None:
    with pytest.raises(DownloadError, match=f"answers {status}"):
        run(site.add("/a", status=status), tmp_path)
    assert len(site.asked) == 1
    assert list(tmp_path.glob(".download*")) == []


def test_redirects_within_https_are_followed(site: Site, tmp_path: Path) -> None:
    end = site.add("/end", CONTENT, break_after=[1000])
    source = site.add("/a", status=302, location=end)

    assert run(source, tmp_path).path.read_bytes() == CONTENT
    assert site.asked[-1] == ("/end", "bytes=1000-", '"1"')


@pytest.mark.parametrize("location", ["http://127.0.0.1:9/x", "file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirects_out_of_https_are_refused(site: Site, tmp_path: Path, location: str) -> None:
    with pytest.raises(DownloadError, match=r"which is not HTTPS|is not allowed"):
        run(site.add("/a", status=302, location=location), tmp_path)


def test_redirects_in_a_circle(site: Site, tmp_path: Path) -> None:
    source = site.add("/a", status=302, location="/a")

    with pytest.raises(DownloadError, match="answers 302"):
        run(source, tmp_path)


@pytest.mark.parametrize("source", ["http://127.0.0.1:9/x", "file:///etc/passwd", "/etc/passwd"])
def test_nothing_but_https(tmp_path: Path, source: str) -> None:
    with pytest.raises(DownloadError, match="is no https:// address"):
        run(source, tmp_path)


def test_a_certificate_that_nobody_vouches_for(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
    with serving(certificates) as site, pytest.raises(DownloadError, match="certificate is not trusted"):
        run(site.add("/a", CONTENT), tmp_path)


def test_a_server_that_is_not_there(certificates: Certificates, tmp_path: Path) -> None:
    with serving(certificates) as site:
        source = site.url + "/a"

    with pytest.raises(DownloadError, match="cannot be reached: Connection refused"):
        run(source, tmp_path)


def test_an_address_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="its address is malformed"):
        run("https://user:word@127.0.0.1/a b", tmp_path)


def test_no_length_is_no_harm(site: Site, tmp_path: Path) -> None:
    assert run(site.add("/a", CONTENT, length=False), tmp_path).path.read_bytes() == CONTENT


def test_a_stream_without_end(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MAX_BYTES", 1 << 18)

    with pytest.raises(DownloadError, match="more than"):
        run(site.add("/a", CONTENT, length=False), tmp_path)
    assert list(tmp_path.glob(".download*")) == []


def test_no_room_is_said_before_it_is_taken(site: Site, tmp_path: Path) -> None:
    source = site.add("/a", b"x")
    page = site.pages["/a"]
    # No disk of these days has an exbibyte free.
    page.content = _Long(b"x")

    with pytest.raises(InstallError, match="MiB are free"):
        run(source, tmp_path)


class _Long(bytes):
    """Says that it is longer than it is."""

    def __getitem__(self, _: object) -> _Long:  # type: ignore[override]
        return self

    def __len__(self) -> int:
        return 1 << 58
