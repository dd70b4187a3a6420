"""On which line of its file a value stands. JSON is near enough to YAML for one reader to place both."""

from __future__ import annotations

from typing import Any, Final

import yaml

from lemonpod.contract.location import Path as DocumentPath

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Lines:
    """The lines of one document; it knows none where the text is no YAML, as with escaped surrogates."""

    def __init__(self, text: bytes) -> None:
        try:
            self._root: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
        except yaml.YAMLError:
            self._root = None

    def of(self, path: DocumentPath) -> int | None:
        """The line, from 1, on which the value at `path` begins."""
        node = self._root
        for step in path:
            match node, step:
                case yaml.MappingNode(), str():
                    node = next((value for key, value in node.value if key.value == step), None)
                case yaml.SequenceNode(), int() if step < len(node.value):
                    node = node.value[step]
                case _:
                    return None
        return node.start_mark.line + 1 if node else None
