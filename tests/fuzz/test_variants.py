"""Whatever options say: each thing that a backend manages is said once, and no token is left."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from lemonpod.errors import LaunchError, TokenError
from lemonpod.launch.bases.table import BASES
from lemonpod.launch.plan import LaunchPlan
from tests.unit.launch.bases.variants import files, planned, variant_request

TOKEN = re.compile(r"\{[a-z_]+(?::[^}]*)?\}")
# Switches and what one says instead of another are one thing to manage.
MANAGED = {
    "llamacpp": (
        {"-m", "--model", "-hf", "--hf-repo"},
        {"-c", "--ctx-size"},
        {"-dev", "--device"},
        {"--port"},
        {"--jinja", "--no-jinja"},
        {"--metrics"},
        {"-mm", "--mmproj", "--no-mmproj"},
        {"-md", "--model-draft", "--spec-draft-model"},
        {"--embedding", "--embeddings"},
        {"--rerank", "--reranking"},
    ),
    "whispercpp": ({"-m", "--model"}, {"--port"}),
    "sd-cpp": ({"-m", "--model", "--diffusion-model"}, {"--llm"}, {"--vae"}, {"-v"}, {"--listen-port"}),
}
FLAGS = sorted({flag for groups in MANAGED.values() for group in groups for flag in group})
words = st.one_of(
    st.sampled_from([*FLAGS, "--temp", "--ctx_size", "--no_jinja", "{ctx_size}", "{custom:x}", "0"]),
    st.builds(lambda flag, value: f"{flag}={value}", st.sampled_from(FLAGS), st.text("ab{}-_", max_size=4)),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
)
options = st.fixed_dictionaries(
    {},
    optional={
        "args": st.one_of(st.lists(words, max_size=4), st.lists(words, max_size=4).map(" ".join)),
        "ctx_size": st.one_of(st.integers(-2, 1 << 40), st.text(max_size=3), st.none()),
        "device": st.sampled_from(["cpu", "vulkan", "auto", "", "rocm"]),
        "llamacpp_device": st.one_of(st.text(max_size=5), st.integers()),
        "steps": st.one_of(st.integers(), st.text(max_size=3)),
    },
)
names = st.sampled_from(["mmproj", "draft", "text_encoder", "vae", "npu_cache"])


@given(
    base=st.sampled_from(sorted(BASES)),
    accelerator=st.sampled_from(["cpu", "vulkan", "cuda", "rocm", "metal"]),
    given_=options,
    labels=st.lists(st.sampled_from(["embeddings", "reranking", "mtp", "dflash", "vision"]), max_size=3),
    more=st.lists(names, unique=True),
    extra=st.lists(st.sampled_from(["--x", "{ctx_size}", "{custom:steps:-1}", "{custom_args}"]), max_size=2),
)
def test_what_is_managed_is_said_once(
    base: str,
    accelerator: str,
    given_: dict[str, object],
    labels: list[str],
    more: list[str],
    extra: list[str],
) -> None:
    request = variant_request(
        base,
        accelerator,
        block={"argv_extra": extra},
        options=given_,
        labels=tuple(labels),
        files=files(main="/m.gguf", **{name: f"/{name}.gguf" for name in more}),
    )
    try:
        plan: LaunchPlan = planned(request)
    except (LaunchError, TokenError):
        return
    flags = [word.partition("=")[0] for word in plan.spec.argv[1:]]
    flags = [flag.replace("_", "-") if flag.startswith("--") else flag for flag in flags]
    for group in MANAGED[base]:
        assert sum(flag in group for flag in flags) <= 1, plan.spec.argv
    assert flags[plan.spec.argv.index("8001") - 2] in {"--port", "--listen-port"}
    left = [word for word in plan.spec.argv if TOKEN.search(word)]
    assert not left or given_.get("args")  # braces in a user's own argument are text
    assert all(isinstance(word, str) for word in plan.spec.argv)
