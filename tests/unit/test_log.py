"""What looks like a credential never reaches a log line."""

from __future__ import annotations

import logging
import sys

import pytest

from lemonpod.log import RedactingFormatter


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

    line = RedactingFormatter().format(record)

    assert "s3cret" not in line
    assert line.endswith(" done")


def test_credentials_in_a_traceback_are_blanked() -> None:
    try:
        raise ValueError("token=" + "s3cret"[:])
    except ValueError:
        record = logging.LogRecord("n", logging.ERROR, __file__, 1, "failed", (), sys.exc_info())

    assert "ValueError: token=…" in RedactingFormatter().format(record)


def test_other_text_stays() -> None:
    record = logging.LogRecord("n", logging.INFO, __file__, 1, "tokens: %d", (7,), None)

    assert RedactingFormatter().format(record) == "tokens: 7"
