from __future__ import annotations

import pytest

from lemonpod.errors import CheckpointNotFoundError
from lemonpod.models.variants import pick, shards

M07 = ["Model-Q4_K_M-imatrix.gguf", "Model-Q4_K_M.gguf", "Model-Q8_0.gguf"]
SHARDED = [
    "Q4_K_M/m-Q4_K_M-00001-of-00002.gguf",
    "Q4_K_M/m-Q4_K_M-00002-of-00002.gguf",
    "Q8_0/m-Q8_0-00001-of-00002.gguf",
    "Q8_0/m-Q8_0-00002-of-00002.gguf",
    "README.md",
]
VISION = ["README.md", "m-Q4_0.gguf", "m-Q8_0.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf"]
DIFFUSERS = [
    "model_index.json",
    "text_encoder/model.safetensors",
    "unet/model.safetensors",
    "vae/ae.safetensors",
]


@pytest.mark.parametrize(
    ("files", "variant", "role", "expected"),
    [
        # M07: exact names in any case, the quant by itself, never a longer one that begins alike
        (M07, "Model-Q8_0.gguf", "main", "Model-Q8_0.gguf"),
        (M07, "model-q8_0.GGUF", "main", "Model-Q8_0.gguf"),
        (M07, "Q4_K_M", "main", "Model-Q4_K_M.gguf"),
        (M07, "q4_k_m", "main", "Model-Q4_K_M.gguf"),
        (M07, "Model-Q4_K_M", "main", "Model-Q4_K_M.gguf"),
        (M07, "Q4_K_M-imatrix", "main", "Model-Q4_K_M-imatrix.gguf"),
        (M07, "Q4_K", "main", None),
        (M07, "Q6_K", "main", None),
        (M07, "8_0", "main", None),
        (M07, "Model-Q6_K.gguf", "main", None),
        (["m-Q4_K_M.gguf", "m-Q4_K_S.gguf"], "Q4_K", "main", None),
        (["m-IQ4_XS.gguf", "m-Q4_XS.gguf"], "Q4_XS", "main", "m-Q4_XS.gguf"),
        (["m-IQ4_XS.gguf"], "Q4_XS", "main", None),
        (["m-Q4_K_M-imat.gguf"], "q4_k_m", "main", "m-Q4_K_M-imat.gguf"),
        (["m.Q4_K_M.gguf"], "Q4_K_M", "main", "m.Q4_K_M.gguf"),
        (["m_Q4_K_M.gguf"], "Q4_K_M", "main", "m_Q4_K_M.gguf"),
        (["m-Q4_0.gguf"], "Q4.0", "main", None),
        # nothing said: the first model, in shards the first of them, else all of it
        (M07, "", "main", M07[0]),
        (M07, "*", "main", M07[0]),
        (SHARDED, "", "main", SHARDED[0]),
        (VISION, "", "main", "m-Q4_0.gguf"),
        (VISION, "", "mmproj", "mmproj-BF16.gguf"),
        (DIFFUSERS, "", "main", ""),
        (["m.gguf"], "", "mmproj", None),
        ([], "", "main", None),
        # folders and files in them
        (SHARDED, "Q4_K_M", "main", SHARDED[0]),
        (SHARDED, "q8_0", "main", SHARDED[2]),
        (["q4/a-00001-of-00002.gguf", "q4/a-00002-of-00002.gguf"], "Q4", "main", "q4/a-00001-of-00002.gguf"),
        # engines open the first shard, whichever is named
        (SHARDED, SHARDED[1], "main", SHARDED[0]),
        (SHARDED, "M-Q8_0-00002-of-00002.gguf", "main", SHARDED[2]),
        (["m-00002-of-00002.gguf"], "m-00002-of-00002.gguf", "main", "m-00002-of-00002.gguf"),
        (["x/BF16/m.gguf"], "bf16", "main", "x/BF16/m.gguf"),
        (["deep/er/m-Q4_0.gguf"], "m-Q4_0.gguf", "main", "deep/er/m-Q4_0.gguf"),
        (["deep/er/m-Q4_0.gguf"], "deep/er/m-Q4_0.gguf", "main", "deep/er/m-Q4_0.gguf"),
        (["a/m.gguf", "m.gguf"], "m.gguf", "main", "m.gguf"),
        (DIFFUSERS, "vae", "vae", "vae"),
        (DIFFUSERS, "ae.safetensors", "vae", "vae/ae.safetensors"),
        (["ggml-base.bin", "ggml-large.bin"], "ggml-large.bin", "main", "ggml-large.bin"),
        # a projector is no main model, unless it is named
        (VISION, "F16", "main", None),
        (VISION, "F16", "mmproj", "mmproj-F16.gguf"),
        (VISION, "mmproj-F16.gguf", "main", "mmproj-F16.gguf"),
        # the shard number is no part of the name
        (["m-Q4_0-00001-of-00002.gguf", "m-Q4_0-00002-of-00002.gguf"], "Q4_0", "main",
         "m-Q4_0-00001-of-00002.gguf"),
    ],
)  # fmt: skip
def test_a_variant_means_one_file(files: list[str], variant: str, role: str, expected: str | None) -> None:
    assert pick(files, variant, role) == expected


@pytest.mark.parametrize(
    ("files", "variant"),
    [
        (["a-Q4_0.gguf", "b-Q4_0.gguf"], "Q4_0"),
        (["m-Q4_K_XL.gguf", "m-UD-Q4_K_XL.gguf"], "Q4_K_XL"),
        (["a/m.gguf", "b/m.gguf"], "m.gguf"),
        (["q4/a.gguf", "q4/b.gguf"], "q4"),
        (["m-Q4_0-x.gguf", "m-Q4_0-y.gguf"], "Q4_0"),
        (["M.gguf", "m.GGUF"], "m.gguf"),
    ],
)
def test_two_that_fit_are_an_error_that_lists_them(files: list[str], variant: str) -> None:  # M07
    with pytest.raises(CheckpointNotFoundError) as caught:
        pick(files, variant, "main")
    assert all(name in caught.value.message for name in files)


def test_the_shards_of_a_model() -> None:
    assert shards("m-00002-of-00003.gguf") == (
        "m-00001-of-00003.gguf",
        "m-00002-of-00003.gguf",
        "m-00003-of-00003.gguf",
    )
    assert shards("m.gguf") == ("m.gguf",)
    assert shards("m-1-of-2.gguf") == ("m-1-of-2.gguf",)
