"""What registries say of images: the little of the distribution API that tells digests.

https://github.com/opencontainers/distribution-spec and, for tokens,
https://distribution.github.io/distribution/spec/auth/token/
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from urllib.request import parse_http_list, parse_keqv_list

from lemonpod.contract.image import ImageRef, is_digest
from lemonpod.contract.location import shown
from lemonpod.pin.credentials import Credentials, Login
from lemonpod.pin.source import DOCKER_HUB, DigestError, NoSuchImageError
from lemonpod.pin.transport import Answer, is_loopback, may_name, origin, send

_HUB_SERVER: Final = "registry-1.docker.io"
_INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_SCHEMA_VERSION: Final = 2
"""Of every manifest and index whose digest is the hash of all its bytes."""
_ACCEPT: Final = ", ".join((*_INDEXES, *_MANIFESTS))


class Registry:
    """A DigestSource that asks the registry in an image's name."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._authorizations: dict[tuple[str, str], str] = {}
        """By registry and repository: what it last asked for and got."""

    def digest(self, image: ImageRef) -> str:
        named = self._manifest("HEAD", image).headers.get("Docker-Content-Digest", "")
        if not is_digest(named):
            body = self._manifest("GET", image).body
            _parsed(body, image)
            named = _hashed(body, image)
        if image.digest not in (None, named):
            raise DigestError(f"{image.registry} answers '{image}' with another digest, {shown(named)}")
        return named

    def includes(self, image: ImageRef, digest: str) -> bool:
        body = self._manifest("GET", replace(image, digest=None)).body
        manifests = _parsed(body, image).get("manifests") or ()  # of an index; none of a manifest
        if digest == _hashed(body, replace(image, digest=digest)):
            return True
        try:
            return any(one.get("digest") == digest for one in manifests)
        except (AttributeError, TypeError):
            raise _no_manifest(image) from None

    def _manifest(self, method: str, image: ImageRef) -> Answer:
        registry = image.registry or DOCKER_HUB
        reference = image.digest or image.tag or "latest"
        answer = self._ask(method, registry, image.repository, f"manifests/{reference}")
        if answer.status == 200:
            return answer
        raise _refusal(answer, image)

    def _ask(self, method: str, registry: str, repository: str, what: str) -> Answer:
        """The answer, after having shown who we are where that is asked for."""
        url = f"{_base(registry)}/v2/{repository}/{what}"
        headers = {"Accept": _ACCEPT}
        place = registry, repository
        answer = send(method, url, headers, authorization=self._authorizations.get(place))
        # Whoever a redirect led to may not ask for what is the registry's.
        if answer.status == 401 and origin(answer.url) == origin(url):
            login = self._credentials.login(registry, repository)
            if authorization := _authorization(answer, login, repository):
                self._authorizations[place] = authorization
                answer = send(method, url, headers, authorization=authorization)
        return answer


def _base(registry: str) -> str:
    """Where a registry answers: only on this machine without encryption."""
    server = _HUB_SERVER if registry == DOCKER_HUB else registry
    scheme = "http" if is_loopback(f"//{server}") else "https"
    return f"{scheme}://{server}"


def _authorization(answer: Answer, login: Login | None, repository: str) -> str | None:
    """What `answer`, a 401, asks to be sent with the request; None where we have nothing of that kind."""
    challenges = {}
    for header in answer.headers.get_all("WWW-Authenticate", ()):
        scheme, _, parameters = header.strip().partition(" ")
        challenges[scheme.lower()] = parse_keqv_list(_pairs(parameters))
    if "bearer" in challenges:
        realm = challenges["bearer"].get("realm", "")
        if not may_name(answer.url, realm):
            raise DigestError(f"the registry has logins sent to '{shown(realm)}', which is not HTTPS")
        return f"Bearer {_token(realm, challenges['bearer'], login, repository)}"
    return login.basic() if login and "basic" in challenges else None


def _pairs(parameters: str) -> list[str]:
    return [pair for pair in parse_http_list(parameters) if "=" in pair]


def _token(realm: str, challenge: dict[str, str], login: Login | None, repository: str) -> str:
    """A token for reading, from the server that the registry names; with the login that it is to check."""
    query = {"scope": challenge.get("scope") or f"repository:{repository}:pull"}
    if service := challenge.get("service"):
        query["service"] = service
    host, separator = urlsplit(realm).netloc, "&" if urlsplit(realm).query else "?"
    answer = send(
        "GET", f"{realm}{separator}{urlencode(query)}", {}, authorization=login.basic() if login else None
    )
    if answer.status in (401, 403):
        raise DigestError(
            f"{host} refuses {'the login of ' + repr(login.user) if login else 'who has no login'}",
            hint="log in with podman login or docker login",
        )
    if answer.status != 200:
        raise DigestError(f"{host} gives no token: {_status(answer)}")
    try:
        document = json.loads(answer.body)
        return str(document.get("token") or document["access_token"])
    except (ValueError, KeyError, AttributeError, TypeError):
        raise DigestError(f"{host} answers something else than a token") from None


def _refusal(answer: Answer, image: ImageRef) -> DigestError:
    registry = image.registry
    match answer.status:
        case 404:
            return NoSuchImageError(f"{registry} has no '{image}'")
        case 401 | 403:
            return DigestError(
                f"{registry} denies access to '{image}', or has none of that name",
                hint=f"log in with podman login {registry} or docker login {registry}",
            )
        case 429:
            after = answer.headers.get("Retry-After", "")
            wait = f"again in {after} s" if after.isdigit() else "later"
            return DigestError(f"{registry} answers no more requests for now", hint=f"try {wait}, or log in")
    return DigestError(f"{registry} does not say what '{image}' is: {_status(answer)}")


def _status(answer: Answer) -> str:
    """The status, and the registry's own words where it has some."""
    try:
        errors: Any = json.loads(answer.body)["errors"]
        words = ": " + shown(errors[0]["message"])
    except (ValueError, KeyError, IndexError, TypeError):
        words = ""
    return f"HTTP status {answer.status}{words}"


def _parsed(body: bytes, image: ImageRef) -> dict[str, Any]:
    """The manifest or index that `body` is; a web server answers any path with some page of its own."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise _no_manifest(image) from None
    if not isinstance(document, dict) or document.get("schemaVersion") != _SCHEMA_VERSION:
        raise _no_manifest(image)
    return document


def _no_manifest(image: ImageRef) -> DigestError:
    return DigestError(f"{image.registry} answers something else than a manifest")


def _hashed(body: bytes, image: ImageRef) -> str:
    algorithm = image.digest.partition(":")[0] if image.digest else "sha256"
    return f"{algorithm}:{hashlib.new(algorithm, body).hexdigest()}"
