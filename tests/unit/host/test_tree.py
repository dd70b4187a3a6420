"""Trees: nothing leads out of them, nothing holds them up, and what is not there is an answer."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import pytest

from lemonpod.errors import ConfigError
from lemonpod.host.document import MAX_DOCUMENT, document, open_tree
from lemonpod.host.tree import MAX_BYTES, Folder, Tree, resolve

FILES = {"/a/b/file": "text\r\nmore\n", "/a/other": "x"}
LINKS = {
    "/in": "a/b",
    "/absolute": "/a/b",
    "/out": "../../../../etc",
    "/a/up": "../a/other",
    "/circle": "circle",
    "/round": "about",
    "/about": "round",
    "/nowhere": "gone",
}


@pytest.fixture(params=["folder", "document"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    if request.param == "document":
        return document({"files": FILES, "links": LINKS})
    for path, text in FILES.items():
        place = tmp_path / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())
    for path, target in LINKS.items():
        (tmp_path / path[1:]).symlink_to(target)
    return Folder(tmp_path)


def test_files_are_text_with_the_ends_of_lines_of_linux(tree: Tree) -> None:
    assert tree.read("/a/b/file") == "text\nmore\n"
    assert tree.read("/in/file") == tree.read("/absolute/file") == "text\nmore\n"
    assert tree.read("/a/up") == "x"


def test_folders_are_listed_in_order(tree: Tree) -> None:
    assert tree.names("/a") == ("b", "other", "up")
    assert tree.names("/absolute") == ("file",)


def test_links_are_resolved(tree: Tree) -> None:
    assert tree.real("/absolute/file") == "/a/b/file"
    assert tree.real("/in/../other") == "/a/other"
    assert tree.real("/") == "/"


@pytest.mark.parametrize("path", ["/none", "/circle", "/round", "/nowhere", "/a/other/below", "/\0", "/out"])
def test_what_is_not_there(tree: Tree, path: str) -> None:
    assert tree.read(path) is None
    assert tree.names(path) == ()
    assert tree.real(path) is None
    assert tree.node(path) is None


def test_a_folder_is_no_file_and_a_file_is_no_folder(tree: Tree) -> None:
    assert tree.read("/a") is None
    assert tree.names("/a/other") == ()
    assert tree.node("/a/other") is None


def test_nothing_leads_out_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("out")
    inside = tmp_path / "root"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "secret")
    (inside / "up").symlink_to("..")

    assert Folder(inside).read("/link") is None
    assert Folder(inside).read("/up/secret") is None
    assert Folder(inside).read("/../secret") is None


def test_a_pipe_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert Folder(tmp_path).read("/pipe") is None


def test_a_file_without_end_is_cut(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 34)

    assert len(Folder(tmp_path).read("/huge") or "") == MAX_BYTES


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(bytes(range(256)))

    assert len(Folder(tmp_path).read("/bytes") or "") == 256


def test_this_machine_is_the_one_that_python_runs_on() -> None:
    assert Folder().machine == platform.machine()
    assert Folder(Path("/usr")).machine is None
    assert Folder().read("/proc/meminfo")
    assert Folder().real("/proc/self") == f"/proc/{os.getpid()}"
    null = Folder().node("/dev/null")
    assert null is not None
    assert Folder().may_open(null)


def test_links_are_followed_as_often_as_the_kernel_does() -> None:
    chain = {f"/{number}": f"{number + 1}" for number in range(41)}

    assert resolve("/1", chain.get) == "/41"
    assert resolve("/0", chain.get) is None


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ([], "must be an object"),
        ({}, "files: must be an object"),
        ({"files": {"/x": 1}}, 'files["/x"]: must be a text'),
        ({"files": {}, "links": []}, "links: must be an object"),
        ({"files": {}, "dirs": [1]}, "dirs[0]: must be a text"),
        ({"files": {}, "unreadable": "x"}, "unreadable: must be a list"),
        ({"files": {}, "groups": {"video": True}}, "groups.video: must be a number"),
        ({"files": {}, "user": {"groups": ["x"]}}, "user.groups[0]: must be a number or one of 'groups'"),
        ({"files": {}, "user": {"uid": "0"}}, "user.uid: must be a number"),
        ({"files": {}, "nodes": [{"path": "/dev/x", "mode": "rw"}]}, "nodes[0].mode: must be an octal text"),
        (
            {"files": {}, "nodes": [{"path": "/dev/x", "mode": "0660", "uid": 0, "gid": "y"}]},
            "nodes[0].gid: must be a number or one of 'groups'",
        ),
        (
            {"files": {}, "nodes": [{"path": "/x", "mode": "0660", "uid": 0, "gid": 0, "open": 1}]},
            "nodes[0].open: must be true or false",
        ),
    ],
)
def test_a_document_that_is_none_names_the_place(value: object, place: str, tmp_path: Path) -> None:
    file = tmp_path / "capture.json"
    file.write_text(json.dumps(value))

    with pytest.raises(ConfigError) as caught:
        open_tree(file)

    assert f"{file}: {place}" in str(caught.value)
    assert "lemonpod host --capture FILE" in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000, b"1" * 5000])
def test_a_file_that_is_no_json(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "capture.json"
    file.write_bytes(data)

    with pytest.raises(ConfigError, match="no JSON"):
        open_tree(file)


def test_a_file_that_is_no_capture_by_its_size(tmp_path: Path) -> None:
    file = tmp_path / "capture.json"
    with file.open("wb") as stream:
        stream.truncate(MAX_DOCUMENT + 1)

    with pytest.raises(ConfigError, match="longer than"):
        open_tree(file)
