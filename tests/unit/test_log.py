"""What looks like a credential never reaches a log line."""

from __future__ import annotations

import logging

import pytest

from lemonpod.log import RedactionFilter


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer s3cret",
        "GET /v1/models?api_key=s3cret&x=1",
        "HF_TOKEN=s3cret",
        '{"password": "s3cret"}',
    ],
)
def test_credentials_are_blanked(text: str) -> None:
    record = logging.LogRecord("n", logging.INFO, __file__, 1, "%s done", (text,), None)

    assert RedactionFilter().filter(record)
    assert "s3cret" not in record.getMessage()
    assert record.getMessage().endswith(" done")


def test_other_text_stays() -> None:
    record = logging.LogRecord("n", logging.INFO, __file__, 1, "tokens: %d", (7,), None)

    RedactionFilter().filter(record)

    assert record.getMessage() == "tokens: 7"
