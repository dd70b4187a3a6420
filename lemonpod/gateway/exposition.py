"""Prometheus' text format (version 0.0.4): families of metrics, written down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]
NONE: Final[Labels] = {}


class Sample(NamedTuple):
    suffix: str
    labels: Labels
    value: float


@dataclass(slots=True)
class Family:
    """One metric: `kind` is a gauge, a counter or a histogram."""

    kind: str
    name: str
    text: str
    samples: list[Sample] = field(default_factory=list)

    def add(self, value: float | None, labels: Labels = NONE) -> None:
        """A value; what is unknown is left out."""
        if value is not None:
            self.samples.append(Sample("", labels, value))

    def add_histogram(
        self, bounds: Sequence[float], counts: Sequence[int], total: float, labels: Labels
    ) -> None:
        """A distribution, whose `counts` are those below each of the bounds, and beyond the last."""
        *below, all_ = accumulate(counts)
        for bound, count in zip(bounds, below, strict=True):
            self.samples.append(Sample("_bucket", {**labels, "le": str(bound)}, count))
        self.samples.append(Sample("_bucket", {**labels, "le": "+Inf"}, all_))
        self.samples.append(Sample("_sum", labels, total))
        self.samples.append(Sample("_count", labels, all_))


def exposition(families: Iterable[Family]) -> str:
    """All that have a value."""
    lines: list[str] = []
    for family in families:
        if family.samples:
            lines += [f"# HELP {family.name} {family.text}", f"# TYPE {family.name} {family.kind}"]
            lines += [f"{family.name}{s.suffix}{_written(s.labels)} {s.value}" for s in family.samples]
    return "".join(line + "\n" for line in lines)


def _written(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    # Half a character, as a path may hold it, is in no text.
    text = value.encode("utf-8", "replace").decode()
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
