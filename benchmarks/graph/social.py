"""A social network with texts and vectors: people, who know each other, write and like posts, which have tags.

Words are drawn so that few are in very many posts, and vectors lie in clusters, as embeddings do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.graph.data import days, keys, skewed

SEED = 20_250_205
WIDTH = 128
"""Dimensions of a vector."""
TOPICS = 200
"""Clusters of vectors."""
WORDS = 30_000
FEWEST, MOST = 8, 40
"""Words of a post."""
BLOCK = 50_000

SCHEMA = f"""
node Person {{ name: String @key  age: I32  joined: Date }}
node Tag {{ name: String @key }}
node Post {{
  slug: String @key  text: String @index  length: I32  day: Date
  vector: Vector({WIDTH}) @index @metric("cosine")
}}
edge Knows: Person -> Person {{ since: Date  @unique(src, dst) }}
edge Wrote: Person -> Post {{ @unique(src, dst) }}
edge Likes: Person -> Post {{ day: Date  @unique(src, dst) }}
edge HasTag: Post -> Tag {{ @unique(src, dst) }}
"""
TYPES = ("Person", "Tag", "Post", "Knows", "Wrote", "Likes", "HasTag")


@dataclass(frozen=True)
class Size:
    """How large the network is: so many people, tags and posts, and about so many edges of each type."""

    people: int
    tags: int
    posts: int
    knows: int
    likes: int
    has_tag: int

    @property
    def nodes(self) -> int:
        return self.people + self.tags + self.posts


FULL = Size(40_000, 5_000, 155_000, 400_000, 400_000, 245_000)
QUICK = Size(8_000, 1_000, 31_000, 80_000, 80_000, 49_000)
TINY = Size(300, 40, 900, 1_500, 1_500, 1_200)
CHUNKS = Size(1_000, 100, 1_000_000, 5_000, 5_000, 5_000)
SIZES = {"full": FULL, "quick": QUICK, "tiny": TINY}


def person(number: int) -> str:
    return f"p{number:06}"


def tag(number: int) -> str:
    return f"t{number:05}"


def word(number: int) -> str:
    """A word of the language that posts are written in: letters alone, the same for the same number."""
    found = ""
    number += 26 * 26
    while number:
        number, letter = divmod(number, 26)
        found = chr(97 + letter) + found
    return found


def phrase(random: np.random.Generator, count: int = 3) -> str:
    """Words that somebody may search for: neither the most usual ones nor those that nobody wrote."""
    return " ".join(word(int(n)) for n in (WORDS * random.random(count) ** 3 * 0.2 + 20).astype(np.int64))


def near(random: np.random.Generator) -> list[float]:
    """A vector that somebody may search for: near a topic."""
    found: list[float] = _vectors(random, 1)[0].tolist()
    return found


def write(folder: Path, size: Size) -> dict[str, int]:
    """Write a Parquet file for every type, named after it; how many rows each has."""
    makers: dict[str, Iterator[pa.Table]] = {
        "Person": iter([_people(size)]),
        "Tag": iter([pa.table({"name": keys("t", 5, np.arange(size.tags))})]),
        "Post": _posts(size),
        "Knows": iter([_between(size, 3, size.knows, ("p", 6, size.people), ("p", 6, size.people), "since")]),
        "Wrote": iter([_wrote(size)]),
        "Likes": iter([_between(size, 4, size.likes, ("p", 6, size.people), ("m", 7, size.posts), "day")]),
        "HasTag": iter([_between(size, 5, size.has_tag, ("m", 7, size.posts), ("t", 5, size.tags), None)]),
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


def _people(size: Size) -> pa.Table:
    random = np.random.default_rng([SEED, 0])
    ages = pa.array(random.integers(18, 90, size.people, dtype=np.int32))
    return pa.table({"name": keys("p", 6, np.arange(size.people)), "age": ages, "joined": days(random, size.people)})


def _posts(size: Size) -> Iterator[pa.Table]:
    vocabulary = np.array([word(n) for n in range(WORDS)], dtype=object)
    for low in range(0, size.posts, BLOCK):
        count = min(BLOCK, size.posts - low)
        random = np.random.default_rng([SEED, 1, low])
        lengths = random.integers(FEWEST, MOST + 1, count)
        drawn = vocabulary[(WORDS * random.random(int(lengths.sum())) ** 4).astype(np.int64)]
        ends = np.cumsum(lengths)
        texts = [" ".join(drawn[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(_vectors(random, count).ravel()), WIDTH)
        yield pa.table(
            {
                "slug": keys("m", 7, np.arange(low, low + count)),
                "text": texts,
                "length": pa.array(lengths.astype(np.int32)),
                "day": days(random, count),
                "vector": vectors,
            }
        )


def _vectors(random: np.random.Generator, count: int) -> Any:
    centres = np.random.default_rng([SEED, 2]).normal(size=(TOPICS, WIDTH))
    noise = random.normal(size=(count, WIDTH))
    return (centres[random.integers(0, TOPICS, count)] + noise * 0.7).astype(np.float32)


def _wrote(size: Size) -> pa.Table:
    authors = skewed(np.random.default_rng([SEED, 6]), size.posts, size.people)
    return pa.table({"from": keys("p", 6, authors), "to": keys("m", 7, np.arange(size.posts))})


def _between(
    size: Size, kind: int, count: int, sources: tuple[str, int, int], targets: tuple[str, int, int], date: str | None
) -> pa.Table:
    """Edges, each pair once and none from a node to itself; some targets have very many."""
    random = np.random.default_rng([SEED, kind])
    source = random.integers(0, sources[2], int(count * 1.03) + 10)
    target = skewed(random, len(source), targets[2])
    pairs = np.unique(source * targets[2] + target)
    pairs = np.sort(random.permutation(pairs)[:count])
    source, target = pairs // targets[2], pairs % targets[2]
    if sources[0] == targets[0]:
        source, target = source[source != target], target[source != target]
    found = {"from": keys(*sources[:2], source), "to": keys(*targets[:2], target)}
    return pa.table(found | ({date: days(random, len(source))} if date else {}))
