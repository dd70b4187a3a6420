"""An HTTPS server of the test's own, trusted by it alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.https_site import Certificates, Site, make_certificates, serving


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def site(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with serving(certificates) as site:
        yield site
