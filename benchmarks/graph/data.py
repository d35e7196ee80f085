"""The graph that is measured: people who know each other and live in cities, made by a rule, the same every time.

Whom somebody knows is drawn so that a few people are known by very many, as in real networks: the one that is known
best is a hub of thousands of edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 20_250_107
BLOCK = 100_000
"""People that are made at once."""
HUBS = 3.0
"""The larger, the more edges lead to few."""
SOCIABLE = 16
"""One in so many people knows one more, so that there are as many edges as the size says after pairs are made one."""
FIRST_DAY = 3_650

SCHEMA = """
node Person { name: String @key  age: I32  joined: Date }
node City { name: String @key  size: I64 }
edge Knows: Person -> Person { since: Date  weight: F64  @unique(src, dst) }
edge LivesIn: Person -> City @card(0..1) { since: Date }
"""


@dataclass(frozen=True)
class Size:
    """How large the graph is: about so many people, cities, and people that each person knows."""

    people: int
    cities: int
    friends: int

    @property
    def nodes(self) -> int:
        return self.people + self.cities


FULL = Size(990_000, 10_000, 4)
QUICK = Size(99_000, 1_000, 4)
TINY = Size(2_000, 50, 4)
SIZES = {"full": FULL, "quick": QUICK, "tiny": TINY}


def person(number: int) -> str:
    """The key of a person."""
    return f"p{number:07}"


def city(number: int) -> str:
    """The key of a city."""
    return f"c{number:05}"


def write(folder: Path, size: Size) -> dict[str, int]:
    """Write a Parquet file for every type, named after it; how many rows each has."""
    makers = {
        "Person": _people(size),
        "City": iter([_cities(size)]),
        "Knows": _knows(size),
        "LivesIn": _lives_in(size),
    }
    counts = {}
    for name, tables in makers.items():
        counts[name] = 0
        writer = None
        for table in tables:
            writer = writer or pq.ParquetWriter(folder / f"{name}.parquet", table.schema)
            writer.write_table(table)
            counts[name] += table.num_rows
        assert writer is not None
        writer.close()
    return counts


def _blocks(size: Size) -> Iterator[tuple[int, int]]:
    for low in range(0, size.people, BLOCK):
        yield low, min(size.people, low + BLOCK)


def _draw(kind: int, block: int) -> np.random.Generator:
    return np.random.default_rng([SEED, kind, block])


def keys(letter: str, digits: int, numbers: Any) -> pa.Array:
    """Keys of things by their numbers."""
    padded = np.char.zfill(numbers.astype(np.str_), digits)
    return pa.array(np.char.add(letter, padded))


def days(random: np.random.Generator, count: int) -> pa.Array:
    """Days that were drawn."""
    return pa.array(FIRST_DAY + random.integers(0, 15_000, count, dtype=np.int32), pa.int32()).cast(pa.date32())


def skewed(random: np.random.Generator, count: int, among: int) -> Any:
    """Numbers of which few are drawn very often. They are spread over all, so a key tells no degree."""
    drawn = (among * random.random(count) ** HUBS).astype(np.int64)
    return (drawn * 7_919 + 13) % among


def _people(size: Size) -> Iterator[pa.Table]:
    for low, high in _blocks(size):
        random, count = _draw(0, low), high - low
        yield pa.table(
            {
                "name": keys("p", 7, np.arange(low, high)),
                "age": pa.array(random.integers(18, 90, count, dtype=np.int32)),
                "joined": days(random, count),
            }
        )


def _cities(size: Size) -> pa.Table:
    random = _draw(1, 0)
    sizes = pa.array(random.integers(1_000, 10_000_000, size.cities))
    return pa.table({"name": keys("c", 5, np.arange(size.cities)), "size": sizes})


def _knows(size: Size) -> Iterator[pa.Table]:
    """Nobody knows somebody twice, and nobody knows themselves."""
    for low, high in _blocks(size):
        random = _draw(2, low)
        people = np.arange(low, high)
        source = np.repeat(people, size.friends + (people % SOCIABLE == 0))
        target = skewed(random, len(source), size.people)
        pairs = np.unique(source * size.people + target)
        source, target = pairs // size.people, pairs % size.people
        other = source != target
        source, target = source[other], target[other]
        yield pa.table(
            {
                "from": keys("p", 7, source),
                "to": keys("p", 7, target),
                "since": days(random, len(source)),
                "weight": pa.array(random.random(len(source))),
            }
        )


def _lives_in(size: Size) -> Iterator[pa.Table]:
    for low, high in _blocks(size):
        random = _draw(3, low)
        cities = (size.cities * random.random(high - low) ** 2).astype(np.int64)
        yield pa.table(
            {
                "from": keys("p", 7, np.arange(low, high)),
                "to": keys("c", 5, cities),
                "since": days(random, high - low),
            }
        )
