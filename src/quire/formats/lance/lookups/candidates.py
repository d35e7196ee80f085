"""Which fragments a look-up has to read: those that may hold what it looks for.

A fragment whose keys are known, and have no fingerprint in common with those that are wanted, is left out. Of the
others an index tells where rows are, if it covers them. What is left was not met before: it is read as a whole, once,
and is known from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quire.filters import Both, Compare, Condition, Either, In
from quire.formats import fingerprints
from quire.formats.fingerprints import Prints
from quire.formats.lance.lookups import known, reading
from quire.formats.lance.lookups.known import Fields, Owner, Part, Piece
from quire.formats.lance.session import described, schema_of

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import LanceFragment

FEW = 8
"""So many fragments that are not known may as well be read."""
LARGEST = 4 << 20
"""More rows than this are not read to be known: an index is for those."""
EQUALITY = ("BTREE", "BITMAP")
"""Indexes that tell which rows have a value."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Chosen:
    """Where rows may be."""

    fields: Fields
    numbers: list[int]
    """Fragments to be read through filters and indexes."""
    every: bool
    """Whether those are all that were asked about."""
    unknown: list[Piece]
    """Fragments to be read as a whole, so that they are known."""


def for_keys(
    handle: LanceDataset, on: Sequence[str], keys: pa.Table, among: Collection[int] | None = None
) -> Chosen | None:
    """Where rows with these keys may be, among some fragments; None when that is not known of any."""
    owner = known.owner_of(handle)
    fields = None if owner is None else known.fields_of(handle, on)
    if owner is None or fields is None:
        return None
    owner.known.ask(owner.location, fields)
    wanted = fingerprints.of([_typed(keys.column(name), handle, name) for name in on])
    pieces = known.pieces_of(handle, fields, owner.location)
    if among is not None:
        pieces = [piece for piece in pieces if piece.number in among]
    assert wanted is not None
    look = _Look(handle, owner, fields, pieces)
    chosen = look.may_hold(wanted)
    unknown = look.to_read()
    some = chosen & ~unknown
    return Chosen(
        fields,
        [p.number for p, one in zip(pieces, some, strict=True) if one],
        bool(some.all()),
        [p for p, one in zip(pieces, unknown, strict=True) if one],
    )


def for_condition(handle: LanceDataset, condition: Condition | None) -> list[LanceFragment] | None:
    """The fragments in which a condition may hold for a row; None when that may be anywhere."""
    owner = known.owner_of(handle)
    if owner is None or condition is None:
        return None
    mask = _mask(handle, owner, condition)
    if mask is None or mask.all():
        return None
    pieces = known.pieces_of(handle, (), owner.location)
    return known.fragments_of(handle, {p.number for p, one in zip(pieces, mask, strict=True) if one})


def _mask(handle: LanceDataset, owner: Owner, condition: Condition) -> Mask | None:
    """For each fragment whether the condition may hold in it; None where that is not known of any."""
    match condition:
        case Both():
            told = [mask for part in condition.parts if (mask := _mask(handle, owner, part)) is not None]
            return np.logical_and.reduce(told) if told else None
        case Either():
            some = [_mask(handle, owner, part) for part in condition.parts]
            told = [mask for mask in some if mask is not None]
            return np.logical_or.reduce(told) if told and len(told) == len(some) else None
        case Compare(operator="="):
            return _equal(handle, owner, condition.column, [condition.value])
        case In():
            return _equal(handle, owner, condition.column, condition.values)
    return None


def _equal(handle: LanceDataset, owner: Owner, column: str, values: Sequence[Any]) -> Mask | None:
    fields = known.fields_of(handle, [column])
    wanted = None if fields is None else _prints_of(values, schema_of(handle).field(column).type)
    if fields is None or wanted is None:
        return None
    look = _Look(handle, owner, fields, known.pieces_of(handle, fields, owner.location))
    mask = look.may_hold(wanted)
    unknown = look.to_read()
    if unknown.sum() > FEW and look.is_key:
        reading.learn(handle, [column], fields, [p for p, one in zip(look.pieces, unknown, strict=True) if one])
        mask = look.may_hold(wanted)
    return mask


def _prints_of(values: Sequence[Any], kind: pa.DataType) -> Prints | None:
    """Fingerprints of values that a condition names; None where equal may mean more than the same bytes."""
    import pyarrow as pa
    import pyarrow.types as t

    plain = (t.is_integer, t.is_string, t.is_large_string, t.is_binary, t.is_large_binary, t.is_date32)
    if not any(is_it(kind) for is_it in plain):
        return None
    try:
        return fingerprints.of([pa.array(list(values), kind)])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _typed(column: Any, handle: LanceDataset, name: str) -> Any:
    kind = schema_of(handle).field(name).type
    return column if column.type == kind else column.cast(kind)


class _Look:
    """What is known of some columns of some fragments."""

    def __init__(self, handle: LanceDataset, owner: Owner, fields: Fields, pieces: Sequence[Piece]) -> None:
        self._handle, self._owner, self._fields, self.pieces = handle, owner, fields, pieces
        self._prints: list[Prints | None] = []

    @property
    def is_key(self) -> bool:
        """Whether rows are looked up by these columns, or will be."""
        return self._fields in self._owner.known.asked(self._owner.location) or bool(self._covered)

    def may_hold(self, wanted: Prints) -> Mask:
        """Which fragments may hold a row with one of these fingerprints."""
        self._find()
        if self._unknown().sum() > FEW and self._owner.stored is not None and self._owner.stored.read():
            self._find()
        return np.array([p is None or fingerprints.may_share(wanted, p) for p in self._prints], bool)

    def to_read(self) -> Mask:
        """Which fragments should be read as a whole."""
        unknown = self._unknown()
        rows = sum(piece.rows for piece, one in zip(self.pieces, unknown, strict=True) if one)
        return unknown if rows <= LARGEST else np.zeros(len(self.pieces), bool)

    def _find(self) -> None:
        parts = [piece.part for piece in self.pieces]
        found = iter(self._owner.known.get([part for part in parts if part is not None]))
        self._prints = [None if part is None else next(found) for part in parts]

    def _unknown(self) -> Mask:
        """Fragments that neither fingerprints nor an index tell of, and whose files could be known."""
        bare = np.array(
            [piece.part is not None and p is None for piece, p in zip(self.pieces, self._prints, strict=True)], bool
        )
        if bare.any() and self._covered:
            bare &= np.array([piece.number not in self._covered for piece in self.pieces], bool)
        return bare

    @property
    def _covered(self) -> frozenset[int]:
        return covered(self._handle, self._fields)


def worth_storing(handle: LanceDataset) -> dict[Part, Prints]:
    """What is known of fragments that no index covers."""
    owner = known.owner_of(handle)
    found: dict[Part, Prints] = {}
    for fields in () if owner is None else owner.known.asked(owner.location):
        if owner is None or known.names_of(handle, fields) is None:
            continue
        by_index = covered(handle, fields)
        pieces = known.pieces_of(handle, fields, owner.location)
        bare = [p.part for p in pieces if p.part is not None and p.number not in by_index]
        found |= {part: p for part, p in zip(bare, owner.known.get(bare), strict=True) if p is not None}
    return found


def covered(handle: LanceDataset, fields: Fields) -> frozenset[int]:
    """The fragments in which an index finds values of one of the columns."""
    found: set[int] = set()
    for index in described(handle):
        if len(index.fields) == 1 and index.fields[0] in fields and str(index.index_type).upper() in EQUALITY:
            found.update(int(number) for segment in index.segments for number in segment.fragment_ids)
    return frozenset(found)
