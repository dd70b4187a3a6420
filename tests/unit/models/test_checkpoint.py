from __future__ import annotations

import os
from pathlib import Path

import pytest

from lemonpod.models.checkpoint import locate, locate_all
from lemonpod.models.entry import CheckpointRef, Origin
from tests.unit.models.hub import hub_ref, make_repo
from tests.users import bound_by_modes, open_folder


def problem(hub: Path, text: str, origin: Origin = Origin.HUB, role: str = "main") -> str:
    file = locate(CheckpointRef(text=text, origin=origin), hub, role=role)
    assert file.path is None
    assert file.problem is not None
    return file.problem


@pytest.mark.parametrize("ref", ["abc123\n", "abc123\r\n", " abc123 "])
def test_a_ref_may_end_with_a_line_break(tmp_path: Path, ref: str) -> None:  # M01
    snapshot = make_repo(tmp_path, "model.gguf")
    newer = make_repo(tmp_path, "model.gguf", snapshot="fff999", ref=ref)
    os.utime(snapshot, (1, 1))
    assert newer.stat().st_mtime > 1  # which would be taken if the ref named none
    assert locate(hub_ref("org/repo:model.gguf"), tmp_path).path == snapshot / "model.gguf"


@pytest.mark.parametrize("ref", ["gone", "", "../../../etc", "abc123/..", ".", "\0", "é"])
def test_a_ref_that_leads_nowhere_leaves_the_snapshots(tmp_path: Path, ref: str) -> None:
    snapshot = make_repo(tmp_path, "model.gguf", ref=ref)
    assert locate(hub_ref("org/repo:model.gguf"), tmp_path).path == snapshot / "model.gguf"


def test_the_active_snapshot_comes_first_then_the_newest(tmp_path: Path) -> None:
    old = make_repo(tmp_path, "a.gguf", "b.gguf", "c.gguf", snapshot="1old")
    new = make_repo(tmp_path, "a.gguf", "b.gguf", snapshot="2new")
    active = make_repo(tmp_path, "a.gguf", snapshot="3active")
    os.utime(old, (1, 1))
    assert locate(hub_ref("org/repo:a.gguf"), tmp_path).path == active / "a.gguf"
    assert locate(hub_ref("org/repo:b.gguf"), tmp_path).path == new / "b.gguf"
    assert locate(hub_ref("org/repo:c.gguf"), tmp_path).path == old / "c.gguf"


@pytest.mark.parametrize("links", [True, False])
def test_the_path_keeps_the_name_in_the_snapshot(tmp_path: Path, links: bool) -> None:  # M03
    shard = "m-00001-of-00002.gguf"
    snapshot = make_repo(tmp_path, shard, "m-00002-of-00002.gguf", links=links)
    assert locate(hub_ref("org/repo:m"), tmp_path).path == snapshot / shard


def test_a_hub_behind_a_link_keeps_its_name(tmp_path: Path) -> None:  # M03
    make_repo(tmp_path / "real", "m.gguf")
    (tmp_path / "hub").symlink_to("real")
    path = locate(hub_ref("org/repo:m.gguf"), tmp_path / "hub").path
    assert path == tmp_path / "hub" / "models--org--repo" / "snapshots" / "abc123" / "m.gguf"


def test_junk_is_no_model(tmp_path: Path) -> None:  # M05
    snapshot = make_repo(tmp_path, "m-Q4_0.gguf", "m-Q8_0.gguf")
    (tmp_path / "CACHEDIR.TAG").write_text("Signature")
    (tmp_path / "version.txt").write_text("1")
    (tmp_path / ".locks").mkdir()
    (tmp_path / "datasets--a--b").mkdir()
    (tmp_path / "models--org--file").write_text("a file where a folder is expected")
    repo = snapshot.parents[1]
    (repo / ".no_exist" / "abc123").mkdir(parents=True)
    (repo / ".no_exist" / "abc123" / "m-Q6_K.gguf").write_text("")
    (repo / "snapshots" / "desktop.ini").write_text("")
    (repo / "snapshots" / ".DS_Store").write_text("")
    (snapshot / "m-Q6_K.gguf.lock").write_text("1")
    (snapshot / ".m-Q6_K.gguf").write_text("1")
    assert locate(hub_ref("org/repo"), tmp_path).path == snapshot / "m-Q4_0.gguf"
    assert "it has: m-Q4_0.gguf, m-Q8_0.gguf" in problem(tmp_path, "org/repo:Q6_K")
    assert "is not in the Hugging Face cache" in problem(tmp_path, "org/file")


@pytest.mark.parametrize("leftover", ["m.gguf.partial", "m.gguf.incomplete", ".download_manifest.json"])
@pytest.mark.parametrize("text", ["org/repo:m.gguf", "org/repo:m", "org/repo"])
def test_an_unfinished_download_is_none(tmp_path: Path, leftover: str, text: str) -> None:  # M05
    snapshot = make_repo(tmp_path, "m.gguf")
    (snapshot / leftover).write_text("x")
    assert "not finished" in problem(tmp_path, text)


@pytest.mark.parametrize("state", ["empty", "dangling", "loop", "absent", "no snapshot"])
def test_a_file_without_content_is_unfinished(tmp_path: Path, state: str) -> None:  # M05
    snapshot = make_repo(tmp_path)
    if state == "empty":
        (snapshot / "m.gguf").write_bytes(b"")
    elif state == "dangling":
        (snapshot / "m.gguf").symlink_to("../../blobs/gone")
    elif state == "loop":
        (snapshot / "m.gguf").symlink_to("m.gguf")
    else:
        (snapshot.parents[1] / "blobs" / "e.incomplete").write_text("x")
    if state == "no snapshot":
        snapshot.rmdir()
    assert "not finished" in problem(tmp_path, "org/repo:m.gguf")


def test_an_unfinished_file_spares_the_others(tmp_path: Path) -> None:
    snapshot = make_repo(tmp_path, "a.gguf", "b.gguf", "__init__.py")
    (snapshot / "b.gguf.partial").write_text("x")
    assert locate(hub_ref("org/repo:a.gguf"), tmp_path).path == snapshot / "a.gguf"
    assert locate(hub_ref("org/repo"), tmp_path).path == snapshot / "a.gguf"


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    make_repo(tmp_path, "m-00001-of-00003.gguf", "m-00003-of-00003.gguf")
    assert "m-00002-of-00003.gguf does not exist" in problem(tmp_path, "org/repo:m")


def test_a_repository_without_gguf_is_its_snapshot(tmp_path: Path) -> None:
    snapshot = make_repo(tmp_path, "config.json", "model.safetensors")
    (snapshot / "__init__.py").write_text("")  # empty on purpose
    assert locate(hub_ref("org/repo"), tmp_path).path == snapshot
    (snapshot / "more.safetensors").write_text("")
    assert "not downloaded completely: more.safetensors" in problem(tmp_path, "org/repo")


def test_what_is_not_there_lists_what_is(tmp_path: Path) -> None:  # M07
    make_repo(tmp_path, "Model-Q4_K_M.gguf", "Model-Q4_K_M-imatrix.gguf", "Model-Q8_0.gguf", "README.md")
    for absent in ("Q4_K", "Q6_K", "Model-Q6_K.gguf"):
        assert (
            f"no file for '{absent}'; it has: Model-Q4_K_M-imatrix.gguf, Model-Q4_K_M.gguf, Model-Q8_0.gguf"
        ) in problem(tmp_path, f"org/repo:{absent}")


def test_what_was_never_downloaded_says_how_to(tmp_path: Path) -> None:
    text = problem(tmp_path, "org/repo:m.gguf")
    assert str(tmp_path) in text
    assert "lemonpod pull MODEL" in text


M11 = [
    "org/repo:../../../../etc/passwd",
    "org/repo:/etc/passwd",
    "org/repo:a/../../x",
    "org/repo:./x",
    "org/repo:a//x",
    "org/repo:a/",
    "org/repo:..\\x",
    "org/repo:a\x00",
    "org/repo:a\n",
    "..:x",
    "org/..:x",
    "../..:x",
    "./repo:x",
    "org/re/po",
    "org/repo\\..:x",
    "",
    ":x",
    "org",
    "~/m.gguf",
    "org/repo\n",
]


@pytest.mark.parametrize("text", M11)
def test_a_text_does_not_lead_out_of_the_cache(tmp_path: Path, text: str) -> None:
    hub = tmp_path / "hub"
    make_repo(hub, "m.gguf")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("x")
    (tmp_path / "x").write_text("x")
    assert locate(hub_ref(text), hub).path is None


@pytest.mark.parametrize("text", ["../x", "/etc/passwd", "a/../../x", "a\\x", "..", "", "a\x00"])
def test_nor_does_an_upload(tmp_path: Path, text: str) -> None:  # M11
    (tmp_path / "hub").mkdir()
    (tmp_path / "x").write_text("x")
    assert "relative path" in problem(tmp_path / "hub", text, Origin.LOCAL_UPLOAD)


def test_nothing_is_written(tmp_path: Path) -> None:  # M13
    make_repo(tmp_path, "m-Q4_0.gguf", "mmproj-F16.gguf")
    folders = [path for path in [tmp_path, *tmp_path.rglob("*")] if path.is_dir()]
    before = {path: path.stat().st_mtime_ns for path in folders}
    for path in folders:
        path.chmod(0o555)
    try:
        files = locate_all({"main": hub_ref("org/repo"), "mmproj": hub_ref("org/repo")}, tmp_path)
    finally:
        for path in folders:
            path.chmod(0o755)
    assert all(file.path for file in files.values())
    assert {path: path.stat().st_mtime_ns for path in folders} == before


def test_a_folder_that_may_not_be_read_says_so() -> None:  # M13
    with open_folder() as hub:
        snapshot = make_repo(hub, "m.gguf")
        snapshot.chmod(0)
        try:
            with bound_by_modes():
                assert f"{snapshot}: cannot be read: Permission denied" in problem(hub, "org/repo:m.gguf")
        finally:
            snapshot.chmod(0o755)


def test_a_further_checkpoint_is_also_looked_for_in_the_main_repository(tmp_path: Path) -> None:
    main = make_repo(tmp_path, "m.gguf", "vae/ae.safetensors", "mmproj-F16.gguf")
    own = make_repo(tmp_path, "clip.safetensors", repo="org/other")
    files = locate_all(
        {
            "main": hub_ref("org/repo:m.gguf"),
            "text_encoder": hub_ref("org/other:clip.safetensors"),
            "vae": hub_ref("org/other:ae.safetensors"),
            "mmproj": hub_ref("org/repo"),
            "draft": hub_ref("org/other:draft.gguf"),
            "npu_cache": hub_ref("org/nowhere"),
        },
        tmp_path,
    )
    assert {name: file.path for name, file in files.items()} == {
        "main": main / "m.gguf",
        "text_encoder": own / "clip.safetensors",
        "vae": main / "vae" / "ae.safetensors",
        "mmproj": main / "mmproj-F16.gguf",
        "draft": None,
        "npu_cache": None,
    }


def test_modelscope_has_folders_of_its_own(tmp_path: Path) -> None:
    snapshot = make_repo(tmp_path, "m.gguf", prefix="modelscope--models--")
    ref = CheckpointRef(text="org/repo:m.gguf", origin=Origin.MODELSCOPE)
    assert locate(ref, tmp_path).path == snapshot / "m.gguf"
    assert locate(hub_ref("org/repo:m.gguf"), tmp_path).path is None


def test_a_path_of_ones_own_is_used_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "my models" / "a:b.gguf"
    file.parent.mkdir()
    file.write_bytes(b"GGUF")
    (tmp_path / "link").symlink_to("my models")
    for path in (file, file.parent, tmp_path / "link" / "a:b.gguf"):
        ref = CheckpointRef(text=str(path), origin=Origin.LOCAL_PATH)
        assert locate(ref, tmp_path / "hub").path == path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/nowhere/m.gguf", "does not exist"),
        ("C:\\m\\x.gguf", "not an absolute path on this machine"),
        ("m.gguf", "not an absolute path"),
        ("/m\x00.gguf", "control character"),
        ("/dev/null", "no file"),
        ("/" + "x" * 300, "cannot be read: File name too long"),
    ],
)
def test_a_path_of_ones_own_that_is_none(tmp_path: Path, text: str, words: str) -> None:
    assert words in problem(tmp_path, text, Origin.LOCAL_PATH)


def test_an_unfinished_file_of_ones_own(tmp_path: Path) -> None:  # M05
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    (tmp_path / "m.gguf.partial").write_bytes(b"GGUF")
    assert "its download is not finished" in problem(tmp_path, f"{tmp_path}/m.gguf", Origin.LOCAL_PATH)


def test_a_main_text_that_names_no_repository_lends_none(tmp_path: Path) -> None:
    snapshot = make_repo(tmp_path, "draft.gguf")
    files = locate_all({"main": hub_ref("llama3:8b"), "draft": hub_ref("org/repo:draft.gguf")}, tmp_path)
    assert (files["main"].path, files["draft"].path) == (None, snapshot / "draft.gguf")


def test_an_upload_is_below_the_cache(tmp_path: Path) -> None:
    file = tmp_path / "models--user--m" / "m.gguf"
    file.parent.mkdir()
    file.write_bytes(b"GGUF")
    ref = CheckpointRef(text="models--user--m/m.gguf", origin=Origin.LOCAL_UPLOAD)
    assert locate(ref, tmp_path).path == file
