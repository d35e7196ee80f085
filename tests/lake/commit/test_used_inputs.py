"""A program that runs again and gives an input that its first run has read: it is told, and no row is lost silently."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire.errors import InvalidInput

ROWS = [{"id": i} for i in range(3)]
Make = Callable[[], Any]


class OneIterator:
    """It can be asked for its rows again and again, and hands out the same iterator."""

    def __init__(self) -> None:
        self._held = iter([pa.table({"id": [1, 2]})])

    def __iter__(self) -> Iterator[pa.Table]:
        return self._held


class OneStream:
    def __init__(self) -> None:
        self._held = pa.table({"id": [1, 2]}).to_reader()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._held.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("make", [OneIterator, OneStream])
@pytest.mark.parametrize("verb", ["append", "upsert", "overwrite"])
def test_an_object_that_holds_one_iterator_is_told_when_it_has_none_left(
    lake: quire.Lake, make: Make, verb: str
) -> None:
    held = make()
    runs = []

    def program(tx: quire.Transaction) -> None:
        runs.append(tx["raced" if verb == "upsert" else "t"].count())
        getattr(tx["raced" if verb == "upsert" else "t"], verb)(held)
        if len(runs) == 1:
            raise quire.Conflict("made up")

    with pytest.raises(InvalidInput, match="is now empty"):
        lake.transact(program)
    assert (lake["t"].count(), lake["raced"].count()) == (0, 1)


def test_a_list_may_be_emptied_between_two_runs(lake: quire.Lake) -> None:
    rows = [{"id": 1}]

    def program(tx: quire.Transaction) -> int:
        added = tx["t"].append(rows)
        if added:
            rows.clear()
            raise quire.Conflict("made up")
        return added

    assert lake.transact(program) == 0


@pytest.fixture
def lake() -> quire.Lake:
    made = quire.create(f"memory://{uuid.uuid4().hex}")
    made.create_table("t", schema=pa.schema([("id", pa.int64())]))
    made.create_table("raced", [{"id": 0}], key="id")
    return made


def batches() -> list[pa.RecordBatch]:
    return pa.Table.from_pylist(ROWS).to_batches(max_chunksize=2)


def yielded(rows: Any) -> Iterator[Any]:
    yield from rows


def one_by_one(rows: Any) -> Iterator[Any]:
    for some in rows:
        if some is not None:
            yield some


class Streaming:
    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.reader = reader

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader.__arrow_c_stream__(requested_schema)


class Handing:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


class Own:
    """An iterator of somebody's own making."""

    def __init__(self) -> None:
        self.rows = iter(batches())

    def __iter__(self) -> Own:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self.rows)


ONCE: dict[str, Make] = {
    "generator": lambda: yielded(batches()),
    "generator expression": lambda: (batch for batch in batches()),
    "iterator of a list": lambda: iter(batches()),
    "map": lambda: map(pa.RecordBatch.from_pylist, [ROWS]),
    "chain": lambda: itertools.chain(batches()),
    "iterator of one's own": Own,
    "reader of Arrow": lambda: pa.Table.from_pylist(ROWS).to_reader(),
}
AGAIN: dict[str, Make] = {
    "list": lambda: ROWS,
    "list of batches": batches,
    "table": lambda: pa.Table.from_pylist(ROWS),
    "batch": lambda: pa.RecordBatch.from_pylist(ROWS),
    "columns": lambda: {"id": [0, 1, 2]},
}
READERS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda given: given,
    "by a generator expression": lambda given: (batch for batch in given),
    "by map": lambda given: map(lambda batch: batch, given),
    "by one in another": lambda given: (batch for batch in filter(None, (part for part in given))),
    "by a generator function": lambda given: one_by_one(given),
    "by yield from": lambda given: yielded(given),
    "by a generator with a closure": lambda given: (lambda: (yield from given))(),
    "by chain": lambda given: itertools.chain(given),
    "by chain in chain": lambda given: itertools.chain(itertools.chain.from_iterable([given]), ()),
    "by starmap": lambda given: itertools.starmap(lambda batch: batch, zip(given, strict=False)),
    "by tee": lambda given: itertools.tee(given)[0],
    "by islice": lambda given: itertools.islice(given, 9),
    "by takewhile": lambda given: itertools.takewhile(lambda batch: True, given),
    "by a reader of Arrow": lambda given: pa.RecordBatchReader.from_batches(KEYED, given),
    "by an object with a stream": lambda given: Streaming(pa.RecordBatchReader.from_batches(KEYED, given)),
    "by an object with an iterator": lambda given: Handing(given),
}


def twice(lake: quire.Lake, put: Callable[[quire.Transaction], Any]) -> int:
    """Run a program in which a rival is faster the first time; how often it ran."""
    runs = itertools.count(1)

    def program(tx: quire.Transaction) -> int:
        run = next(runs)
        put(tx)
        tx["raced"].update({"id": "id"}, where="true")
        if run == 1:
            with quire.open(lake.uri).transaction() as rival:
                rival["raced"].update({"id": "id"}, where="true")
        return run

    return lake.transact(program) or 0


@pytest.mark.sampled
@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("kind", ONCE)
def test_an_input_that_the_first_run_has_read_is_an_error_in_the_second(lake: quire.Lake, kind: str, read: str) -> None:
    given = ONCE[kind]()
    with pytest.raises(InvalidInput, match="read before") as caught:
        twice(lake, lambda tx: tx["t"].append(READERS[read](given)))
    assert caught.value.table == "t"
    assert "inside the function" in (caught.value.next or "")
    assert lake["t"].count() == 0, "nothing was committed"


VERBS: dict[str, Callable[[quire.Transaction, Any], Any]] = {
    "append": lambda tx, rows: tx["t"].append(rows),
    "insert": lambda tx, rows: tx["t"].insert(rows, on="id"),
    "upsert": lambda tx, rows: tx["t"].upsert(rows, on="id"),
    "overwrite": lambda tx, rows: tx["t"].overwrite(rows),
    "append to a table with a key": lambda tx, rows: tx.create_table("k", schema=KEYED, key="id").append(rows),
    "create": lambda tx, rows: tx.create_table("new", rows),
}
KEYED = pa.schema([("id", pa.int64())])


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_takes_rows_looks(lake: quire.Lake, verb: str) -> None:
    given = iter(batches())
    with pytest.raises(InvalidInput, match="list_iterator"):
        twice(lake, lambda tx: VERBS[verb](tx, given))
    assert lake.tables() == ["raced", "t"]
    assert lake["t"].count() == 0


@pytest.mark.parametrize("kind", [*ONCE, *AGAIN])
def test_what_is_made_inside_the_function_is_read_in_every_run(lake: quire.Lake, kind: str) -> None:
    assert twice(lake, lambda tx: tx["t"].append((ONCE | AGAIN)[kind]())) == 2
    assert sorted(lake["t"].to_arrow().column("id").to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("kind", AGAIN)
def test_what_can_be_read_again_may_be_given_again(lake: quire.Lake, kind: str) -> None:
    given = AGAIN[kind]()
    assert twice(lake, lambda tx: tx["t"].append(given)) == 2
    assert sorted(lake["t"].to_arrow().column("id").to_pylist()) == [0, 1, 2]


def test_a_relation_of_duckdb_is_read_again(lake: quire.Lake) -> None:
    import duckdb

    with duckdb.connect() as connection:
        relation = connection.sql("select range::bigint as id from range(3)")
        assert twice(lake, lambda tx: tx["t"].append(relation)) == 2
    assert lake["t"].count() == 3


def test_numbers_that_a_generator_takes_are_no_input(lake: quire.Lake) -> None:
    """An iterator that goes on may be shared between runs, as long as it is not what the rows come from."""
    numbers = itertools.count(100)
    assert (
        twice(lake, lambda tx: tx["t"].append(pa.RecordBatch.from_pylist([{"id": next(numbers)}]) for _ in "ab")) == 2
    )
    assert sorted(lake["t"].to_arrow().column("id").to_pylist()) == [102, 103]


def test_a_generator_that_holds_one_that_is_finished(lake: quire.Lake) -> None:
    given = yielded(batches())

    def through() -> Iterator[Any]:
        yield from given

    with pytest.raises(InvalidInput, match="generator"):
        twice(lake, lambda tx: tx["t"].append(through()))
    assert lake["t"].count() == 0


@pytest.mark.parametrize("kind", ["generator", "reader of Arrow"])
def test_a_loop_of_ones_own_is_told_too(lake: quire.Lake, kind: str) -> None:
    """Where it can be seen of the input itself, whoever runs the program again."""
    given = ONCE[kind]()
    tx = lake.transaction()
    tx["t"].append(given)
    tx.discard()
    with pytest.raises(InvalidInput, match="read before"), lake.transaction() as tx:
        tx["t"].append(given)
    assert lake["t"].count() == 0


def test_two_statements_cannot_share_what_is_read_once(lake: quire.Lake) -> None:
    given = iter(batches())
    tx = lake.transaction()
    assert tx["t"].append(given) == 3
    with pytest.raises(InvalidInput, match="read before"):
        tx.create_table("copy", given)
    tx.commit()
    assert lake.tables() == ["raced", "t"]
    assert lake["t"].count() == 3


def test_what_the_library_runs_again_needs_no_input(lake: quire.Lake) -> None:
    """A replay works from the files that were staged."""
    lake.transact(lambda tx: tx["t"].append(batches()))
    with lake.transaction() as tx:
        tx["t"].upsert(iter(batches()), on="id")
        with quire.open(lake.uri).transaction() as rival:
            rival["t"].upsert(batches(), on="id")
    assert tx.receipt is not None
    assert tx.receipt.replayed == 1
    assert lake["t"].count() == 3


def test_pieces_of_an_iterator_may_follow_each_other_in_one_run_and_not_in_the_next(lake: quire.Lake) -> None:
    given = iter(batches())
    with lake.transaction() as tx:
        assert [tx["t"].append(itertools.islice(given, 1)) for _ in range(3)] == [2, 1, 0]
    whole = iter([pa.table({"id": [n]}) for n in range(10)])
    with pytest.raises(InvalidInput, match="read before"):  # the second run would store other rows, as many
        twice(lake, lambda tx: tx["t"].append(itertools.islice(whole, 3)))
    assert lake["t"].count() == 3


def test_a_piece_that_is_smaller_than_before_is_told(lake: quire.Lake) -> None:
    given = iter([pa.table({"id": [n]}) for n in range(4)])

    def three(rows: Any) -> Iterator[Any]:
        for _ in range(3):
            if (one := next(rows, None)) is not None:
                yield one

    with pytest.raises(InvalidInput, match="had 3 rows when it was read before, and has 1 now"):
        twice(lake, lambda tx: tx["t"].append(three(given)))


FOUND: dict[str, Callable[[quire.Transaction], Any]] = {
    "rows of a scan": lambda tx: tx["jobs"].scan(filter="id < 5"),
    "a generator expression": lambda tx: (batch for batch in tx["jobs"].scan(filter="id < 5")),
    "a generator function": lambda tx: one_by_one(tx["jobs"].scan(filter="id < 5")),
    "rows of SQL": lambda tx: tx.sql("select id from jobs where id < 5"),
    "map": lambda tx: map(lambda batch: batch, iter(tx["jobs"].scan(filter="id < 5").to_arrow().to_batches())),
}


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("kind", FOUND)
def test_a_program_may_find_fewer_rows_when_it_runs_again(lake: quire.Lake, kind: str, left: int) -> None:
    lake.create_table("jobs", [{"id": n} for n in (1, 2, 9)])
    runs = itertools.count(1)

    def program(tx: quire.Transaction) -> int:
        tx["t"].append(FOUND[kind](tx))
        if next(runs) == 1:
            with quire.open(lake.uri).transaction() as rival:
                rival["jobs"].delete(f"id > {left} and id < 5")
            raise quire.Conflict("made up")
        return 2

    assert lake.transact(program) == 2
    assert lake["t"].count() == left
