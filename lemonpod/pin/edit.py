"""An image in a manifest's bytes replaced, and not one byte beside it.

An image only ever changes behind its name: a tag that was not written, and the digest. So its notation keeps
its beginning as it is, escapes and all, and gets another end. Where that does not do, reading the result
shows it: it has to be the same document but for the image.
"""

from __future__ import annotations

import copy
from functools import reduce
from typing import Any, Final

from lemonpod.contract.location import Path as DocumentPath
from lemonpod.contract.location import shown
from lemonpod.discovery.read import read_document
from lemonpod.errors import LemonpodError, ManifestError
from lemonpod.pin.literals import literals

_QUOTES: Final = frozenset({'"', "'", ""})


class EditError(LemonpodError):
    """An image that cannot be replaced by itself."""

    code = "edit_refused"


def with_image(data: bytes, path: DocumentPath, old: str, new: str, *, suffix: str) -> bytes:
    """`data`, an accepted document, with `new` in the place of the image `old`; raises EditError.

    Both begin with the same name.
    """
    document: Any = read_document(data, suffix=suffix)
    word = reduce(lambda value, step: value[step], path, document)
    if word != old:
        raise EditError(f"it is a part of the argument '{shown(word)}'", hint="add the digest by hand")
    text = data.decode()
    place = literals(text, suffix=suffix)[path]
    if place.quote not in _QUOTES:
        raise EditError(
            f"it is written as a block of text, behind '{place.quote}'",
            hint="write it on one line, or add the digest by hand",
        )
    start, end = place.start + len(place.quote), place.end - len(place.quote)
    edited = (text[:start] + _with_end(text[start:end], old, new) + text[end:]).encode()
    if not _differs_only_at(path, new, document, edited, suffix):
        raise EditError(
            "it is written in a way that cannot be changed by itself",
            hint="write it on one line and without escapes, or add the digest by hand",
        )
    return edited


def _with_end(written: str, old: str, new: str) -> str:
    """`written`, a notation of `old`, as one of `new`: of the name it stays as it is."""
    name = old.partition("@")[0]
    return written.partition("@")[0] + new.removeprefix(name)


def _differs_only_at(path: DocumentPath, new: str, document: Any, edited: bytes, suffix: str) -> bool:
    expected = copy.deepcopy(document)
    holder = reduce(lambda value, step: value[step], path[:-1], expected)
    holder[path[-1]] = new
    try:
        return bool(read_document(edited, suffix=suffix) == expected)
    except ManifestError:
        return False
