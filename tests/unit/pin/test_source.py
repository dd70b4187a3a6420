"""What a name means, and whom to ask."""

from __future__ import annotations

import pytest

from lemonpod.contract.image import parse_image
from lemonpod.errors import ImageError
from lemonpod.launch.container import Runtime
from lemonpod.pin.source import (
    DigestError,
    EngineImages,
    FirstReached,
    NoSuchImageError,
    Remembering,
    UnreachableError,
    qualified,
)
from tests.fakes.digests import FakeDigests

ONE, TWO = ("sha256:" + digit * 64 for digit in "12")
DOCKER, PODMAN = {Runtime.DOCKER}, {Runtime.PODMAN}


@pytest.mark.parametrize(
    ("image", "meant"),
    [
        ("x:1", "docker.io/library/x:1"),
        ("a/x", "docker.io/a/x"),
        ("docker.io/x", "docker.io/library/x"),
        ("index.docker.io/a/x", "docker.io/a/x"),
        ("r.example:5000/x:1", "r.example:5000/x:1"),
        (f"x@{ONE}", f"docker.io/library/x@{ONE}"),
    ],
)
def test_docker_knows_one_registry_for_short_names(image: str, meant: str) -> None:  # C07
    assert str(qualified(parse_image(image), DOCKER)) == meant


@pytest.mark.parametrize("runtimes", [PODMAN, PODMAN | DOCKER])
def test_a_short_name_of_podman_is_not_guessed(runtimes: set[Runtime]) -> None:  # C07
    with pytest.raises(ImageError, match=r"short name.*docker\.io/library/x:1"):
        qualified(parse_image("x:1"), runtimes)
    assert str(qualified(parse_image("docker.io/x"), runtimes)) == "docker.io/library/x"


def test_one_run_asks_once_and_hears_the_same() -> None:
    broken = parse_image("r.example/y:1")
    image, source = (
        parse_image("r.example/x:1"),
        FakeDigests({"r.example/x:1": ONE, str(broken): UnreachableError("no")}),
    )
    asking = Remembering(source)

    assert {asking.digest(image), asking.digest(image)} == {ONE}
    for _ in range(2):
        with pytest.raises(UnreachableError):
            asking.digest(broken)
    assert source.asked == ["r.example/x:1", "r.example/y:1"]


def test_the_next_is_asked_only_where_the_first_is_not_reached() -> None:
    image = parse_image("r.example/x:1")
    away = FakeDigests({str(image): UnreachableError("away")})
    here = FakeDigests({str(image): ONE})

    assert FirstReached(away, here).digest(image) == ONE
    with pytest.raises(NoSuchImageError):
        FirstReached(FakeDigests(), here).digest(image)
    with pytest.raises(DigestError, match=r"away; there is no 'r\.example/x:1'"):
        FirstReached(away, FakeDigests()).digest(image)
    with pytest.raises(UnreachableError, match="away; away"):
        FirstReached(away, away).includes(image, ONE)


def test_an_engine_knows_an_image_by_its_repositorys_digests() -> None:  # C09
    three = "sha256:" + "3" * 64
    names = [f"x@{ONE}", f"docker.io/library/x@{TWO}", f"elsewhere.example/x@{three}"]
    engine, image = EngineImages(lambda reference: names), parse_image("docker.io/library/x:1")

    assert engine.includes(image, ONE)
    assert engine.includes(image, TWO)
    assert not engine.includes(image, three)
    assert engine.digest(parse_image(f"docker.io/library/x@{TWO}")) == TWO
    with pytest.raises(DigestError, match="more than one digest"):
        engine.digest(image)
    assert EngineImages(lambda reference: names[:1]).digest(image) == ONE


def test_a_digest_that_an_engine_does_not_have_may_be_a_platform_of_what_it_has() -> None:  # C09
    engine = EngineImages(lambda reference: None if "@" in reference else [f"x@{ONE}"])

    with pytest.raises(DigestError, match="to compare"):
        engine.includes(parse_image("docker.io/library/x:1"), TWO)


def test_what_an_engine_has_not_pulled_is_not_gone() -> None:
    with pytest.raises(DigestError) as caught:
        EngineImages(lambda reference: None).digest(parse_image("r.example/x:1"))
    assert not isinstance(caught.value, NoSuchImageError)
