"""Searches as the language means them: tokens, edits, BM25 and distances, from their definitions."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import cache

K1, B = 1.2, 0.75


def tokens(text: str) -> list[str]:
    """Lower-cased runs of letters, marks and digits."""
    spaced = "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in text.lower())
    return spaced.split()


@cache
def edits(one: str, other: str) -> int:
    """Characters put in, left out or replaced."""
    if not one or not other:
        return len(one) + len(other)
    if one[0] == other[0]:
        return edits(one[1:], other[1:])
    return 1 + min(edits(one[1:], other), edits(one, other[1:]), edits(one[1:], other[1:]))


def matches(function: str, text: str, query: str, most: int | None) -> bool:
    """search: any token; match_text: all of them; fuzzy: any, but for some edits. No token matches nothing."""
    wanted, there = tokens(query), tokens(text)
    if not wanted:
        return False
    if function == "match_text":
        return all(word in there for word in wanted)
    if function == "search":
        return any(word in there for word in wanted)
    return any(edits(word, other) <= _forgiven(word, most) for word in wanted for other in there)


def _forgiven(word: str, most: int | None) -> int:
    if most is not None:
        return most
    return 0 if len(word) <= 2 else 1 if len(word) <= 5 else 2


class Corpus:
    """The texts of one property of one type."""

    def __init__(self, texts: Sequence[str | None]) -> None:
        self.texts = [tokens(t) for t in texts if t is not None]

    def score(self, text: str | None, query: str) -> float:
        """BM25; 0 where nothing matches."""
        mine = tokens(text or "")
        mean = sum(map(len, self.texts)) / len(self.texts) if any(self.texts) else 1.0
        total = 0.0
        for word in dict.fromkeys(tokens(query)):
            rows = sum(word in t for t in self.texts)
            weight = math.log(1 + (len(self.texts) - rows + 0.5) / (rows + 0.5))
            count = mine.count(word)
            total += weight * (count * (K1 + 1)) / (count + K1 * (1 - B + B * len(mine) / mean))
        return total


def distance_of(metric: str, one: Sequence[float], other: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    if metric == "l2":
        return math.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)))
    if metric == "dot":
        return 1 - product
    lengths = math.sqrt(sum(a * a for a in one)) * math.sqrt(sum(b * b for b in other))
    return 1 - product / lengths if lengths else 1.0
