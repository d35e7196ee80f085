"""Which properties a row does not give: a row that is there keeps its values of these when another is merged into it.

A property that is absent is not given; one that is null is given as null, and so is an empty field of a CSV file. The
vector of a text that is given is made from it, and so it is not lacking.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from quire.graph.catalog import Entity
from quire.graph.embed.fill import made

NEEDS = "!"
"""Before the ids of a row that lacks what is required: it can only be merged into one that is there."""


class Absent:
    """Tells what rows of a type lack, by the names that they give."""

    def __init__(self, entity: Entity) -> None:
        self._ids = {p.name: p.id for p in entity.defined.properties}
        self._vectors = [(one.vector.name, one.text.name) for one in made(entity)]
        self._known: dict[frozenset[str], frozenset[int]] = {}

    def among(self, names: Iterable[str]) -> frozenset[int]:
        """The ids of the properties that are not among these names. Rows are alike, so most answers are known."""
        given = frozenset(names)
        if given not in self._known:
            there = set(given)
            there.update(vector for vector, text in self._vectors if text in given)
            self._known[given] = frozenset(id for name, id in self._ids.items() if name not in there)
        return self._known[given]


@lru_cache(maxsize=1024)
def lacks_text(ids: frozenset[int], needs: bool) -> str:
    """As it is kept with a row; empty when it lacks nothing."""
    return (NEEDS if needs else "") + ",".join(map(str, sorted(ids)))


def read_lacks(text: str) -> frozenset[int]:
    ids = text.removeprefix(NEEDS)
    return frozenset(map(int, ids.split(","))) if ids else frozenset()
