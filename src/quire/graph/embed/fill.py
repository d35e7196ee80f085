"""Filling the vectors that `@embed` properties are made of, on every way in.

A vector that is given is kept. One that is not given is made from its text, and is null where the text is. The vector
of one text never stays with another: where a text is written without a vector and no embedder is configured, an
optional vector becomes null and is counted, a required one is an error that says how to configure one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import EmbedderError, Refused, Unsupported
from quire.graph.catalog import Entity, Property
from quire.graph.embed.embedder import Embedder
from quire.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 2_048
"""So many different texts are given to an embedder at once; between that, progress is told."""


@dataclass(frozen=True)
class Made:
    """A vector property, and the text that it is made from."""

    entity: Entity
    vector: Property
    text: Property

    @property
    def name(self) -> str:
        return f"{self.entity.name}.{self.vector.name}"


def made(entity: Entity) -> list[Made]:
    """The properties of a type that are made from texts."""
    notes = [(prop, prop.annotation("embed")) for prop in entity.defined.properties]
    return [Made(entity, prop, entity.property(str(note.value))) for prop, note in notes if note is not None]


def asked_with(embedder: Embedder | None) -> Callable[[str, Property], list[float]] | None:
    """What makes the vector of a text that is searched for: by the model that made the property."""
    if embedder is None:
        return None

    def embed(text: str, prop: Property) -> list[float]:
        check(prop.name, prop, embedder)
        found = list(embedder.embed([text]))
        if len(found) != 1:
            raise _wrong(prop.name, embedder, f"gave {len(found)} vectors for 1 text")
        if len(found[0]) != prop.type.size:
            raise _dimensions(prop.name, prop, embedder, len(found[0]))
        return list(found[0])

    return embed


@dataclass
class Vectors:
    """Makes the vectors of one load, one mutation or one query.

    With `remember`, no text is embedded twice, however often the same statements are run. To `pretend` is to check
    everything and to ask for nothing, as a dry run does.
    """

    embedder: Embedder | None = None
    progress: Progress | None = None
    remember: bool = False
    pretend: bool = False
    stored: Callable[[Made, Mapping[str, Any], Any], Any] | None = None
    """Gives rows of a type, by their columns and positions, the vectors that their texts have already."""
    missing: Counter[str] = field(default_factory=Counter)
    """Texts by type that have no vector, because there is no embedder."""
    _known: dict[str, list[float]] = field(default_factory=dict)
    _done: Counter[str] = field(default_factory=Counter)

    def of(self, one: Made, texts: Sequence[str]) -> pa.Array | None:
        """The vectors of texts, as they are stored; None where there is nothing to make them with."""
        import numpy as np
        import pyarrow as pa

        if self.embedder is None:
            if not one.vector.type.optional:
                raise _unconfigured(one)
            self.missing[one.entity.name] += len(texts)
            return None
        check(one.name, one.vector, self.embedder)
        size = one.vector.type.size
        different = list(dict.fromkeys(texts))
        if self.pretend:
            rows = np.zeros((len(different), size), np.float32)
        else:
            rows = np.empty((len(different), size), np.float32)
            for start in range(0, len(different), AT_ONCE):
                some = different[start : start + AT_ONCE]
                rows[start : start + len(some)] = self._asked(one, some)
        places = {text: row for row, text in enumerate(different)}
        chosen = rows[[places[text] for text in texts]]
        return pa.FixedSizeListArray.from_arrays(pa.array(chosen.reshape(-1), pa.float32()), size)

    def one(self, one: Made, text: str) -> list[float] | None:
        """The vector of one text."""
        found = self.of(one, [text])
        return None if found is None else list(found[0].as_py())

    def fill(self, entity: Entity, columns: dict[str, Any], leave: Any) -> dict[str, Any]:
        """Columns of rows, by name, with the vectors that they lack; rows in the mask `leave` are left alone."""
        import numpy as np
        import pyarrow as pa

        filled = {}
        for one in made(entity):
            vectors, texts = columns[one.vector.column], columns[one.text.column]
            lacking = np.asarray(vectors.is_null()) & np.asarray(texts.is_valid()) & ~leave
            rows = np.flatnonzero(lacking)
            there = self._there(one, columns, rows)
            if there is not None:
                known = np.asarray(there.is_valid())
                filled[one.vector.column] = vectors = _placed(vectors, rows[known], there.filter(pa.array(known)))
                rows = rows[~known]
            computed = self.of(one, texts.take(pa.array(rows)).to_pylist()) if len(rows) else None
            if computed is not None:
                filled[one.vector.column] = _placed(vectors, rows, computed)
        return filled

    def _there(self, one: Made, columns: Mapping[str, Any], rows: Any) -> pa.Array | None:
        """The vectors that some rows have already, where the embedder may go on with them."""
        if self.stored is None or self.embedder is None or not len(rows):
            return None
        check(one.name, one.vector, self.embedder)
        return self.stored(one, columns, rows)

    def _asked(self, one: Made, texts: Sequence[str]) -> Any:
        """Vectors of different texts, as rows of an array."""
        import numpy as np

        assert self.embedder is not None
        new = [text for text in texts if text not in self._known]
        found = list(self.embedder.embed(new)) if new else []
        if len(found) != len(new):
            raise _wrong(one.name, self.embedder, f"gave {len(found)} vectors for {len(new)} texts")
        for vector in found:
            if len(vector) != one.vector.type.size:
                raise _dimensions(one.name, one.vector, self.embedder, len(vector))
        given = dict(zip(new, found, strict=True))
        with np.errstate(over="ignore"):
            rows = np.array([self._known.get(t) or given[t] for t in texts], np.float32)
        if not np.isfinite(rows).all():
            raise _wrong(one.name, self.embedder, "gave a number that is not finite")
        if self.remember:
            self._known.update((text, list(vector)) for text, vector in given.items())
        self._done[one.name] += len(texts)
        if self.progress is not None:
            self.progress(f"embedding {one.name}", self._done[one.name], None)
        return rows


def _placed(vectors: pa.Array, rows: Any, others: pa.Array) -> pa.Array:
    """Vectors with others at some rows."""
    import numpy as np
    import pyarrow as pa

    places = np.arange(len(vectors))
    places[rows] = len(vectors) + np.arange(len(rows))
    return pa.concat_arrays([vectors, others]).take(pa.array(places))


def check(name: str, prop: Property, embedder: Embedder) -> None:
    """Refuse an embedder whose vectors are not those of the property: another model, or another dimension."""
    model = _model(prop)
    if model is not None and model != embedder.model:
        raise Refused(
            f"{name} is made by the model {model!r}, and the embedder has {embedder.model!r}: vectors of different"
            " models cannot be compared.",
            next=f"Configure an embedder with the model {model!r}, or give the vectors.",
            property=name,
            wanted=model,
            model=embedder.model,
        )
    if embedder.dimension is not None and embedder.dimension != prop.type.size:
        raise _dimensions(name, prop, embedder, embedder.dimension)


def _model(prop: Property) -> str | None:
    """The model that the schema asks for, if it does."""
    note = prop.annotation("embed")
    found = note.named.get("model") if note is not None else None
    return None if found is None else str(found)


def _dimensions(name: str, prop: Property, embedder: Embedder, found: int) -> Refused:
    return Refused(
        f"{name} has {prop.type.size} dimensions, and the embedder's model {embedder.model!r} has {found}.",
        next="Configure the embedder that the schema was written for, or give the vectors.",
        property=name,
        wanted=prop.type.size,
        found=found,
        model=embedder.model,
    )


def _wrong(name: str, embedder: Embedder, said: str) -> EmbedderError:
    return EmbedderError(
        f"The embedder of {name}, with the model {embedder.model!r}, {said}.",
        next="Check the embedder.",
        property=name,
        model=embedder.model,
    )


def _unconfigured(one: Made) -> Unsupported:
    model = _model(one.vector)
    return Unsupported(
        f"{one.name} is required and made from {one.text.name}, and no embedder is configured.",
        next="Give the vector with every row, or configure one:"
        f' Graph(lake, embedder=OpenAIEmbedder("{model or "…"}")).',
        property=one.name,
        model=model,
    )
