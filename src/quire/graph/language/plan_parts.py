"""Going through a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from quire.graph.catalog import Entity
from quire.graph.language import plan


def parts(node: Any) -> Iterator[Any]:
    """Everything a part of a plan is made of, itself first. Entities and properties are not gone into."""
    yield node
    if isinstance(node, tuple):
        for item in node:
            yield from parts(item)
    elif dataclasses.is_dataclass(node) and not isinstance(node, Entity):
        for field in dataclasses.fields(node):
            value = getattr(node, field.name)
            if isinstance(value, tuple) or dataclasses.is_dataclass(value):
                yield from parts(value)


def variables(node: Any) -> Iterator[str]:
    """The variables that a part of a plan names, each as often as it does."""
    for part in parts(node):
        match part:
            case plan.Field() | plan.System() | plan.Whole() | plan.PathLength() | plan.PathNodes() | plan.Scan():
                yield part.variable
            case plan.Expand():
                yield from (part.source, part.target)
            case plan.Shortest():
                yield part.path
            case plan.Without() | plan.Either() | plan.Maybe() | plan.Counted():
                yield from part.shared
            case _:
                pass
