"""An embedder without a model: texts that share words have vectors that are near each other."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence

from quire.errors import InvalidInput
from quire.graph.types import LARGEST_VECTOR
from quire.prompt import Escaped

_WORD = re.compile(r"\w+")


class HashEmbedder(Escaped):
    """Counts words at places that their hashes say, and makes the length 1.

    The same text gives the same vector on every machine and at all times, and nothing is asked for over a network: for
    tests, examples, and for finding texts by the words they share.

    >>> HashEmbedder(4).embed(["tea"]) == HashEmbedder(4).embed(["Tea!"])
    True
    """

    def __init__(self, dimension: int = 256, *, model: str | None = None) -> None:
        if not isinstance(dimension, int) or not 1 <= dimension <= LARGEST_VECTOR:
            raise InvalidInput(
                f"A vector has between 1 and {LARGEST_VECTOR} dimensions, not {dimension!r}.", next="Choose another."
            )
        self.dimension: int | None = dimension
        self.model = model or f"hash-{dimension}"
        self._size = dimension

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        found = [0.0] * self._size
        for word in _WORD.findall(text.lower()):
            place, sign = self._place(word)
            found[place] += sign
        length = math.sqrt(sum(x * x for x in found))
        if length == 0.0:  # no words, or words that cancel each other out
            place, sign = self._place(text)
            found[place], length = sign, 1.0
        return [x / length for x in found]

    def _place(self, word: str) -> tuple[int, float]:
        digest = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=9).digest(), "big")
        return (digest >> 8) % self._size, 1.0 if digest & 1 else -1.0

    def __repr__(self) -> str:
        return f"HashEmbedder({self._size}, model={self.model!r})"
