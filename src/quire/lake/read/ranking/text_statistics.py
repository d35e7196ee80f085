"""The text of one column at one snapshot: its tokens, how many rows have one, and which tokens are near another.

What was counted is kept for as long as it is used: a table at a pin never changes.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from quire import duckdb_engines
from quire.errors import StorageError

if TYPE_CHECKING:
    from quire.lake.read.table import Table

LONGEST = 1 << 14
"""Tokens longer than this are in no index."""
KEPT = 256
"""Columns of which counts are kept."""
TOKENS = 10_000
"""Tokens of a column of which counts are kept."""

K = TypeVar("K")
V = TypeVar("V")

Ask = Callable[["Table", str, str, dict[str, str]], list[tuple[Any, ...]]]
"""Asks about the tokens of every text of a column of a table, as `t` of `texts`: a query, and the values it binds. The
answer may come in parts, each for some of the texts: what is counted is then summed up, and what is found put together.
"""

TOKEN = r"[\p{L}\p{M}\p{N}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}]+"
"""Letters in circles and squares are letters, as they are to Lance."""

_ASCII_TOKEN = re.compile("[a-z0-9]+")

_lock = threading.Lock()
_kept: OrderedDict[tuple[Any, ...], _Counts] = OrderedDict()


@dataclass
class _Counts:
    """What is known so far about a column. Threads share it, so each part is replaced as a whole."""

    totals: tuple[int, int] | None = None
    """Rows that have a text, and tokens of all of them."""
    frequency: dict[str, int] = field(default_factory=dict)
    near: dict[tuple[str, int], list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Statistics:
    """What BM25 needs to know of all rows."""

    rows: int
    """Rows that have a text."""
    mean: float
    """Tokens of a text on average."""
    frequency: Mapping[str, int]
    """Rows that have a token."""


def tokenized(column: str) -> str:
    """SQL for the tokens of a text, in its order. Null stays null."""
    # DuckDB makes one letter of this one where Unicode makes two.
    return f"regexp_extract_all(lower(replace({column}, 'İ', 'i̇')), '{TOKEN}')"


def ascii_tokens(text: str) -> list[str]:
    """All tokens of a text that is ASCII, in its order."""
    return _ASCII_TOKEN.findall(text.lower())


def tokens(text: str) -> list[str]:
    """The different tokens of a text, in its order."""
    if text.isascii():
        return list(dict.fromkeys(ascii_tokens(text)))
    with duckdb_engines.connected(duckdb_engines.PLAIN) as connection:
        [[found]] = connection.execute(f"SELECT {tokenized('CAST($t AS VARCHAR)')}", {"t": text}).fetchall()
    return list(dict.fromkeys(found))


def statistics(
    table: Table, column: str, wanted: Sequence[str], ask: Ask | None = None, *, keep: bool = True
) -> Statistics:
    """Counts over all rows of a table; reads the column once for what is not known yet.

    Without `keep` nothing that was counted before is used: the table may have changed since.
    """
    counts = _counts(table, column) if keep else _Counts()
    totals, frequency = counts.totals, counts.frequency
    lacking = [t for t in wanted if t not in frequency]
    if totals is None or lacking:
        columns = "".join(f", count(*) FILTER (list_contains(t, CAST($t{n} AS VARCHAR)))" for n in range(len(lacking)))
        query = f"SELECT count(*), coalesce(sum(len(t)), 0){columns} FROM texts"
        parts = (ask or asked)(table, column, query, {f"t{n}": t for n, t in enumerate(lacking)})
        rows, total, *found = (int(sum(counted)) for counted in zip(*parts, strict=True))
        totals = rows, total
        frequency = _more(frequency, dict(zip(lacking, found, strict=True)), wanted)
        counts.totals, counts.frequency = totals, frequency
    rows, total = totals
    return Statistics(rows, total / rows if rows and total else 1.0, {t: frequency[t] for t in wanted})


def counted(
    table: Table, column: str, wanted: Sequence[str], totals: tuple[int, int], rows_with: Callable[[str], int]
) -> Statistics:
    """The same counts where rows and tokens of all texts are known, and somebody tells how many rows have a token."""
    counts = _counts(table, column)
    counts.totals = totals
    frequency = {t: counts.frequency[t] if t in counts.frequency else rows_with(t) for t in wanted}
    counts.frequency = _more(counts.frequency, frequency, wanted)
    rows, total = totals
    return Statistics(rows, total / rows if rows and total else 1.0, frequency)


def near(table: Table, column: str, wanted: Mapping[str, int], ask: Ask | None = None) -> list[str]:
    """The tokens of a column that are within so many edits of any of some tokens."""
    counts = _counts(table, column)
    known = counts.near
    lacking = [(t, n) for t, n in wanted.items() if (t, n) not in known]
    if lacking:
        # DuckDB counts edits of bytes, of which a character has up to four: its answer holds all that may be near.
        tests = [
            f"(levenshtein(w, CAST($t{i} AS VARCHAR)) <= {4 * n} AND abs(length(w) - {len(t)}) <= {n})"
            for i, (t, n) in enumerate(lacking)
        ]
        query = f"SELECT DISTINCT w FROM (SELECT unnest(t) AS w FROM texts) WHERE {' OR '.join(tests)}"
        parts = (ask or asked)(table, column, query, {f"t{i}": t for i, (t, _) in enumerate(lacking)})
        maybe = {w for [w] in parts}
        found = {(t, n): sorted(w for w in maybe if distance(t, w, n) <= n) for t, n in lacking}
        known = counts.near = _more(known, found, list(wanted.items()))
    return sorted({w for pair in wanted.items() for w in known[pair]})


def _more(known: Mapping[K, V], found: Mapping[K, V], wanted: Sequence[K]) -> dict[K, V]:
    """What was known with what was found; only what is wanted now, when it is too much to keep."""
    together = {**known, **found}
    return together if len(together) <= TOKENS else {key: together[key] for key in wanted}


def distance(one: str, other: str, most: int) -> int:
    """Edits from one text to another: characters put in, left out or replaced. Beyond `most` it is only that."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b)))
        if min(row) > most:
            return most + 1
    return row[-1]


def _counts(table: Table, column: str) -> _Counts:
    pin = table._state.pin
    key = (table.id, pin.location, pin.version, column)
    with _lock:
        found = _kept.setdefault(key, _Counts())
        _kept.move_to_end(key)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found


def asked(table: Table, column: str, query: str, values: dict[str, str]) -> list[tuple[Any, ...]]:
    """`Ask` in this process."""
    from quire.lake.read.ranking.lazy_scan import LazyScan

    return answer(LazyScan(table._view(), {"c": column}), query, values)


def answer(texts: Any, query: str, values: dict[str, str]) -> list[tuple[Any, ...]]:
    """What a query says about the tokens of texts, which are the column `c` of Arrow rows."""
    import duckdb

    with duckdb_engines.connected(duckdb_engines.PLAIN) as connection:
        connection.register("scanned", texts)
        shown = f"WITH texts AS (SELECT {tokenized('c')} AS t FROM scanned WHERE c IS NOT NULL)"
        try:
            return connection.execute(f"{shown} {query}", values).fetchall()
        except duckdb.Error as error:  # it tells of a scan that ended in an error as text
            raise getattr(texts, "failure", None) or StorageError(
                f"The words of the texts cannot be counted: {str(error).splitlines()[0]}.",
                next="Try again. Nothing was changed.",
            ) from None
