"""References to images: what is what in them, what is none, and nothing lost on the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemonpod.contract.image import ImageRef, is_digest, parse_image
from lemonpod.errors import ImageError

SHA256 = "sha256:" + "0123456789abcdef" * 4
SHA512 = "sha512:" + "0123456789abcdef" * 8


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag", "digest"),
    [
        ("alpine", None, "alpine", None, None),
        ("alpine:3.20", None, "alpine", "3.20", None),
        ("library/alpine", None, "library/alpine", None, None),
        ("docker.io/library/alpine:3", "docker.io", "library/alpine", "3", None),
        ("ghcr.io/a/b/c/d", "ghcr.io", "a/b/c/d", None, None),
        # A port needs a slash behind it; without one it is a tag.
        ("registry:5000", None, "registry", "5000", None),
        ("registry:5000/x", "registry:5000", "x", None, None),
        ("registry:5000/x:1", "registry:5000", "x", "1", None),
        ("10.0.0.1:5000/a/b:c", "10.0.0.1:5000", "a/b", "c", None),
        ("[::1]:5000/x", "[::1]:5000", "x", None, None),
        ("localhost/x", "localhost", "x", None, None),
        ("localhost", None, "localhost", None, None),
        ("localhost:1", None, "localhost", "1", None),
        # A repository is lowercase, so a first part that is not names a registry.
        ("Registry/x", "Registry", "x", None, None),
        ("GHCR.IO/a/b", "GHCR.IO", "a/b", None, None),
        (f"x@{SHA256}", None, "x", None, SHA256),
        (f"x@{SHA512}", None, "x", None, SHA512),
        (f"h:1/x:t@{SHA256}", "h:1", "x", "t", SHA256),
        ("a__b/c--d", None, "a__b/c--d", None, None),
        ("x:_a.b-C", None, "x", "_a.b-C", None),
        ("x:" + "t" * 128, None, "x", "t" * 128, None),
    ],
)
def test_a_reference_is_parsed_and_written_back(
    text: str, registry: str | None, repository: str, tag: str | None, digest: str | None
) -> None:  # C07, C09
    ref = parse_image(text)

    assert ref == ImageRef(registry=registry, repository=repository, tag=tag, digest=digest)
    assert ref.pinned is (digest is not None)
    assert str(ref) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("/x", "empty"),
        ("x/", "empty"),
        ("a//b", "empty"),
        ("localhost/", "empty"),
        ("x:", "'' is no tag"),
        (":tag", "empty"),
        ("x:" + "t" * 129, "is no tag"),
        ("x:.a", "'.a' is no tag"),
        ("x:a/b", "is no registry"),
        ("a/x:b/c", "'b/c' is no tag"),
        ("Alpine", "uppercase"),
        ("ghcr.io/Org/x", "'Org' has uppercase"),
        ("a b", "cannot be part of a name"),
        ("-x", "cannot be part of a name"),
        ("x\n", "cannot be part of a name"),
        ("a___b", "cannot be part of a name"),
        ("h:port/x", "'h:port' is no registry"),
        ("-h.io/x", "is no registry"),
        ("docker://x/y", "leave out the transport"),
        ("x@", "is no digest"),
        ("x@sha256", "is no digest"),
        ("x@md5:" + "0" * 32, "is no digest; it begins with sha256: or sha512:"),
        ("x@" + SHA256[:-1], "has 63 digits, sha256 has 64"),
        ("x@" + SHA256 + "0", "has 65 digits, sha256 has 64"),
        ("x@sha512:" + "0" * 64, "has 64 digits, sha512 has 128"),
        ("x@" + SHA256.upper().replace("SHA", "sha"), "other characters than 0-9 and a-f"),
        ("x@sha256:", "other characters"),
        (f"x@{SHA256}@{SHA256}", "other characters"),
        ("a/" * 128 + "b", "longer than 255"),
    ],
)
def test_what_is_no_reference_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ImageError) as refused:
        parse_image(text)

    assert reason in str(refused.value)


def test_a_digest_is_whole_or_none() -> None:
    assert is_digest(SHA256)
    assert is_digest(SHA512)
    assert not any(map(is_digest, ("", SHA256[:-1], f"{SHA256}}}", f" {SHA256}", SHA256.replace(":", "-"))))


@given(st.text(alphabet="aB1.:/@_-[] ", max_size=16) | st.text(max_size=8))
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    try:
        ref = parse_image(text)
    except ImageError:
        return
    assert str(ref) == text
