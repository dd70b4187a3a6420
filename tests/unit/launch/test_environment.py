from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lemonpod.launch.environment import INHERITED, INHERITED_PREFIXES, MARKER, engine_environment

NAMES = st.sampled_from(sorted(INHERITED)) | st.from_regex(
    r"(LEMONADE_|LC_|HF_|LISTEN_)?[A-Z_]{1,12}", fullmatch=True
)


def environment(inherited: dict[str, str], added: dict[str, str] | None = None) -> dict[str, str]:
    return engine_environment(inherited, added or {}, marker="run/1", programs="/ours/bin")


@given(st.dictionaries(NAMES, st.text(max_size=5)))
def test_what_is_not_listed_stays_here(inherited: dict[str, str]) -> None:  # L19
    for name in environment(inherited).keys() - {"PATH", MARKER}:
        assert name in INHERITED or name.startswith(INHERITED_PREFIXES)
        assert not any(word in name for word in ("API_KEY", "TOKEN", "SECRET", "PASS", "AUTH"))
        assert not name.startswith(("LEMONADE_", "LISTEN_", "WATCHDOG_"))


def test_our_programs_are_found_last() -> None:
    assert environment({"PATH": "/usr/bin"})["PATH"] == "/usr/bin:/ours/bin"
    assert environment({})["PATH"] == "/usr/local/bin:/usr/bin:/bin:/ours/bin"
    assert environment({"PATH": ""})["PATH"] == "/usr/local/bin:/usr/bin:/bin:/ours/bin"


def test_the_manifest_has_the_last_word_but_not_on_the_marker() -> None:
    found = environment(
        {"HOME": "/h"}, {"HOME": "/mine", "PATH": "/only", "LISTEN_FDS": "1", MARKER: "forged"}
    )
    assert found == {"HOME": "/mine", "PATH": "/only", "LISTEN_FDS": "1", MARKER: "run/1"}
