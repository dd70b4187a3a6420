"""Which files a model needs."""

from __future__ import annotations

import pytest

from lemonpod.errors import HubNotFoundError, InvalidModelError, LemonpodError
from lemonpod.pull.plan import variants, wanted_files
from lemonpod.pull.repo import Listing, RemoteFile

REPOS = {
    "org/gguf": [
        "README.md", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-F16.gguf", "mmproj-Q8_0.gguf", "draft.gguf",
        "BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf", "m-UD-Q4_K_XL.gguf",
    ],
    "org/other": ["clip.safetensors", "vae/ae.safetensors"],
    "org/whole": ["config.json", "model.safetensors", "onnx/model.onnx"],
    "org/torn": ["m-Q4-00001-of-00003.gguf", "m-Q4-00003-of-00003.gguf"],
    "org/empty": [],
}  # fmt: skip


def look(repo: str) -> Listing:
    files = (RemoteFile(path=path, size=len(path), etag="0" * 40) for path in sorted(REPOS[repo]))
    return Listing(repo=repo, commit="a" * 40, files=tuple(files))


def paths(checkpoints: dict[str, str], *, exact: bool = False) -> list[str]:
    return [wanted.file.path for wanted in wanted_files(checkpoints, look, exact=exact)]


@pytest.mark.parametrize(
    ("checkpoints", "expected"),
    [
        ({"main": "org/gguf:Q4_K_M"}, ["m-Q4_K_M.gguf"]),
        ({"main": "org/gguf:m-Q8_0.gguf"}, ["m-Q8_0.gguf"]),
        ({"main": "org/gguf:BF16"}, REPOS["org/gguf"][6:8]),
        ({"main": "org/gguf:BF16/m-BF16-00002-of-00002.gguf"}, REPOS["org/gguf"][6:8]),
        ({"main": "org/gguf:Q4_K_M", "mmproj": "org/gguf:mmproj-F16.gguf"},
         ["m-Q4_K_M.gguf", "mmproj-F16.gguf"]),
        ({"main": "org/gguf:Q4_K_M", "mmproj": "org/gguf:F16"}, ["m-Q4_K_M.gguf", "mmproj-F16.gguf"]),
        ({"main": "org/gguf:Q4_K_M", "draft": "org/gguf:draft.gguf"}, ["m-Q4_K_M.gguf", "draft.gguf"]),
        ({"main": "org/gguf:Q4_K_M", "draft": "org/gguf:Q4_K_M"}, ["m-Q4_K_M.gguf"]),
        ({"main": "org/other:clip.safetensors", "vae": "org/other:vae"},
         ["clip.safetensors", "vae/ae.safetensors"]),
        ({"main": "org/other:clip.safetensors", "vae": "org/whole:ae.safetensors"},
         ["clip.safetensors", "vae/ae.safetensors"]),
        ({"main": "org/whole"}, REPOS["org/whole"]),
        ({"main": "org/whole:onnx"}, ["onnx/model.onnx"]),
    ],
)  # fmt: skip
def test_a_checkpoint_means_files(checkpoints: dict[str, str], expected: list[str]) -> None:
    assert paths(checkpoints, exact=True) == expected


def test_a_registered_model_without_a_variant_gets_what_would_be_loaded() -> None:
    assert paths({"main": "org/gguf"}) == REPOS["org/gguf"][6:8]


@pytest.mark.parametrize(
    ("checkpoints", "kind", "words"),
    [
        ({"main": "org/gguf"}, InvalidModelError, "name the one to fetch, as 'org/gguf:BF16/m-BF16-0"),
        ({"main": "org/gguf:Q4"}, HubNotFoundError, "has no file for 'Q4'; it has: BF16"),
        ({"main": "org/gguf:Q4_K_M", "mmproj": "org/whole:F32"}, HubNotFoundError, "has no file for 'F32'"),
        ({"main": "org/gguf:Q4_K_M", "mmproj": "org/gguf:nope.gguf"}, HubNotFoundError, "no file"),
        ({"main": "org/torn:Q4"}, HubNotFoundError, "lacks parts of the model: m-Q4-00002-of-00003.gguf"),
        ({"main": "org/empty"}, HubNotFoundError, "it has: nothing"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    checkpoints: dict[str, str], kind: type[LemonpodError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        paths(checkpoints, exact=True)
    assert words in str(caught.value)


def test_a_quant_that_fits_two_models_is_unclear() -> None:  # M07
    REPOS["org/two"] = ["a-Q4_0.gguf", "b-Q4_0.gguf"]
    with pytest.raises(InvalidModelError, match=r"fits more than one file: a-Q4_0.gguf, b-Q4_0.gguf"):
        paths({"main": "org/two:Q4_0"})


def test_the_variants_that_most_people_take_come_first() -> None:
    found = variants(look("org/gguf"))
    assert [variant.name for variant in found] == ["Q4_K_M", "UD-Q4_K_XL", "Q8_0", "BF16", "draft.gguf"]
    assert [file.path for file in found[3].files] == REPOS["org/gguf"][6:8]
    assert found[3].size == sum(map(len, REPOS["org/gguf"][6:8]))
