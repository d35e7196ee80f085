"""What makes vectors of texts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from quire.arguments import checked
from quire.errors import InvalidInput


class Embedder(Protocol):
    """Makes vectors of texts. Any object with these will do."""

    @property
    def model(self) -> str:
        """The name of the model, which `@embed("…", model="…")` has to agree with."""
        ...

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector has; None when that is known only after the first answer."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for every text, in their order, for any number of texts."""
        ...


@checked
def embedder(name: str, environ: Mapping[str, str] | None = None) -> Embedder:
    """An embedder by its name, as a command line or a setting has it: `openai:text-embedding-3-small`, `hash:64`.

    An OpenAI-compatible service is asked at `OPENAI_BASE_URL` with `OPENAI_API_KEY`, where they are set; a number after
    another colon asks it for so many dimensions: `openai:text-embedding-3-small:256`.
    """
    from quire.graph.embed.hashing import HashEmbedder
    from quire.graph.embed.openai import OPENAI, OpenAIEmbedder

    kind, _, rest = name.partition(":")
    if kind == "hash" and rest.isdecimal():
        return HashEmbedder(int(rest))
    if kind == "openai" and rest:
        given = os.environ if environ is None else environ
        model, _, last = rest.rpartition(":")
        dimensions = int(last) if model and last.isdecimal() else None
        return OpenAIEmbedder(
            model if dimensions else rest,
            base_url=given.get("OPENAI_BASE_URL") or OPENAI,
            api_key=given.get("OPENAI_API_KEY"),
            dimensions=dimensions,
        )
    raise InvalidInput(
        f"There is no embedder {name!r}.", next="Write openai:MODEL, openai:MODEL:DIMENSIONS or hash:64."
    )
