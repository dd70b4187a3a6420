"""The registry client against stand-ins: tokens, refusals, redirects, headers that are missing."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lemonpod.contract.image import ImageRef, parse_image
from lemonpod.pin.credentials import Credentials
from lemonpod.pin.registry import Registry
from lemonpod.pin.source import DigestError, NoSuchImageError, UnreachableError
from tests.unit.pin.stand_in import Asked, Reply, StandIn, stand_in

DIGEST = "sha256:" + "0123456789abcdef" * 4
OTHER = "sha256:" + "fedcba9876543210" * 4
BASIC = "Basic " + base64.b64encode(b"me:secret").decode()


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with stand_in() as served:
        yield served


@pytest.fixture
def elsewhere() -> Iterator[StandIn]:
    """Another host."""
    with stand_in() as served:
        yield served


def image(registry: StandIn, rest: str = "a/b:1") -> ImageRef:
    return parse_image(f"{registry.host}/{rest}")


def client(tmp_path: Path | None = None, host: str | None = None) -> Registry:
    """With a login for `host`."""
    if tmp_path is None:
        return Registry(Credentials(()))
    file = tmp_path / "auth.json"
    file.write_text(json.dumps({"auths": {host: {"auth": base64.b64encode(b"me:secret").decode()}}}))
    return Registry(Credentials((file,)))


def found(digest: str = DIGEST) -> Reply:
    return Reply(headers={"Docker-Content-Digest": digest})


def wants(challenge: str) -> Reply:
    return Reply(401, {"WWW-Authenticate": challenge})


def test_a_tag_is_asked_for_by_its_head_alone(registry: StandIn) -> None:
    registry.answer = lambda asked: found()

    assert client().digest(image(registry)) == DIGEST
    (asked,) = registry.asked
    assert (asked.method, asked.path, asked.authorization) == ("HEAD", "/v2/a/b/manifests/1", None)
    assert asked.accept.count("application/vnd.") == 4


@pytest.mark.parametrize("headers", [{}, {"Docker-Content-Digest": "no digest"}])
def test_without_a_usable_digest_header_the_manifest_is_hashed(
    registry: StandIn, headers: dict[str, str]
) -> None:
    body = b'{"schemaVersion": 2}'
    registry.answer = lambda asked: Reply(headers=headers, body=body)

    assert client().digest(image(registry)) == "sha256:" + hashlib.sha256(body).hexdigest()
    assert [asked.method for asked in registry.asked] == ["HEAD", "GET"]


@pytest.mark.parametrize(
    "body", [b"", b"<html>hello</html>", b"{}", b"[1]", b"\0", b'{"schemaVersion": {}}', b"[" * 100_000]
)
def test_what_is_no_manifest_is_not_hashed(registry: StandIn, body: bytes) -> None:
    registry.answer = lambda asked: Reply(body=body)

    with pytest.raises(DigestError, match="something else than a manifest"):
        client().digest(image(registry))


def test_a_digest_is_answered_with_itself_or_refused(registry: StandIn) -> None:
    registry.answer = lambda asked: found()

    assert client().digest(image(registry, f"a/b@{DIGEST}")) == DIGEST
    with pytest.raises(DigestError, match="another digest"):
        client().digest(image(registry, f"a/b@{OTHER}"))


def test_an_index_includes_itself_and_its_manifests(registry: StandIn) -> None:  # C09
    body = json.dumps({"schemaVersion": 2, "manifests": [{"digest": DIGEST}]}).encode()
    registry.answer = lambda asked: Reply(body=body)
    own = "sha256:" + hashlib.sha256(body).hexdigest()

    assert client().includes(image(registry), DIGEST)
    assert client().includes(image(registry), own)
    assert not client().includes(image(registry), OTHER)
    registry.answer = lambda asked: Reply(body=b'{"schemaVersion": 2, "manifests": [1]}')
    with pytest.raises(DigestError, match="something else than a manifest"):
        client().includes(image(registry), OTHER)


def test_a_token_is_fetched_where_the_registry_says_and_used_again(
    registry: StandIn, elsewhere: StandIn, tmp_path: Path
) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.authorization == "Bearer t0ken":
            return found()
        return wants(f'Bearer realm="{elsewhere.url}/token",service="reg,1",scope="repository:a/b:pull"')

    registry.answer = answer
    elsewhere.answer = lambda asked: Reply(body=b'{"access_token": "t0ken"}')
    asking = client(tmp_path, registry.host)

    assert asking.digest(image(registry)) == DIGEST
    assert asking.digest(image(registry, "a/b:2")) == DIGEST
    (token,) = elsewhere.asked
    assert (token.path, token.authorization) == ("/token", BASIC)
    assert token.query == {"service": ["reg,1"], "scope": ["repository:a/b:pull"]}
    assert [asked.authorization for asked in registry.asked] == [None, "Bearer t0ken", "Bearer t0ken"]


def test_who_has_no_login_asks_for_a_token_without(registry: StandIn) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path == "/token":
            return Reply(body=b'{"token": "open"}')
        if asked.authorization == "Bearer open":
            return found()
        return wants(f'Bearer realm="{registry.url}/token"')

    registry.answer = answer

    assert client().digest(image(registry)) == DIGEST
    assert registry.asked[1].authorization is None
    assert registry.asked[1].query == {"scope": ["repository:a/b:pull"]}


def test_a_registry_may_take_the_login_itself(registry: StandIn, tmp_path: Path) -> None:
    registry.answer = lambda asked: found() if asked.authorization == BASIC else wants('Basic realm="r"')

    assert client(tmp_path, registry.host).digest(image(registry)) == DIGEST
    with pytest.raises(DigestError, match="denies access"):
        client().digest(image(registry))


def test_no_login_follows_a_redirect_to_another_host(
    registry: StandIn, elsewhere: StandIn, tmp_path: Path
) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.authorization is None:
            return wants('Basic realm="r"')
        return Reply(307, {"Location": f"{elsewhere.url}/there"})

    registry.answer = answer
    elsewhere.answer = lambda asked: found()

    assert client(tmp_path, registry.host).digest(image(registry)) == DIGEST
    assert [(asked.method, asked.path, asked.authorization) for asked in elsewhere.asked] == [
        ("HEAD", "/there", None)
    ]


def test_whoever_a_redirect_leads_to_cannot_ask_for_the_login(
    registry: StandIn, elsewhere: StandIn, tmp_path: Path
) -> None:
    registry.answer = lambda asked: Reply(302, {"Location": f"{elsewhere.url}/there"})
    elsewhere.answer = lambda asked: wants(f'Bearer realm="{elsewhere.url}/token"')

    with pytest.raises(DigestError, match="denies access"):
        client(tmp_path, registry.host).digest(image(registry))
    assert [asked.authorization for asked in (*registry.asked, *elsewhere.asked)] == [None, None]


def test_a_redirect_within_the_registry_keeps_the_login(registry: StandIn, tmp_path: Path) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.authorization != BASIC:
            return wants('Basic realm="r"')
        return found() if asked.path == "/new" else Reply(301, {"Location": "/new"})

    registry.answer = answer

    assert client(tmp_path, registry.host).digest(image(registry)) == DIGEST


@pytest.mark.parametrize("realm", ["http://token.example/x", "ftp://127.0.0.1/x", "", "https://[half"])
def test_a_login_is_not_sent_where_others_read_it(registry: StandIn, tmp_path: Path, realm: str) -> None:
    registry.answer = lambda asked: wants(f'Bearer realm="{realm}"')

    with pytest.raises(DigestError, match="not HTTPS"):
        client(tmp_path, registry.host).digest(image(registry))


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (Reply(404), NoSuchImageError, "has no '"),
        (Reply(403), DigestError, "denies access.*podman login"),
        (Reply(401), DigestError, "denies access"),
        (Reply(429), DigestError, "no more requests for now .try later"),
        (Reply(429, {"Retry-After": "30"}), DigestError, "again in 30 s"),
        (Reply(503), DigestError, "HTTP status 503"),
        (Reply(302, {"Location": "/v2/a/b/manifests/1"}), DigestError, "HTTP status 302"),
    ],
)
def test_the_real_reason_is_told(
    registry: StandIn, reply: Reply, kind: type[DigestError], message: str
) -> None:
    registry.answer = lambda asked: reply

    with pytest.raises(DigestError, match=message) as caught:
        client().digest(image(registry))
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(401), "refuses the login of 'me'"),
        (Reply(500, body=b'{"errors": [{"message": "out of tokens"}]}'), "status 500: out of tokens"),
        (Reply(body=b"[]"), "something else than a token"),
        (Reply(body=b"{}"), "something else than a token"),
    ],
)
def test_a_token_that_is_not_given_says_why(
    registry: StandIn, tmp_path: Path, reply: Reply, message: str
) -> None:
    registry.answer = lambda asked: (
        reply if asked.path == "/token" else wants(f'Bearer realm="{registry.url}/token"')
    )

    with pytest.raises(DigestError, match=message):
        client(tmp_path, registry.host).digest(image(registry))


def test_nobody_there_is_unreachable_and_nothing_more() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(UnreachableError, match=f"127.0.0.1:{port} cannot be reached: Connection refused"):
            client().digest(parse_image(f"127.0.0.1:{port}/a:1"))


def test_an_answer_without_end_is_not_read_to_it(registry: StandIn) -> None:
    registry.answer = lambda asked: Reply(body=b" " * (5 << 20))

    with pytest.raises(DigestError, match="more than 4 MiB"):
        client().digest(image(registry))
