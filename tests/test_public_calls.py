"""Whatever is given to a public function: it works, or it is refused by one of Quire's own errors."""

from __future__ import annotations

import datetime
import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.budget import budget
from tests.public_calls import ODD_VALUES, Call, Each, Odd, Rude, call_of, calls_of

import quire
from quire import pipeline
from quire.errors import InvalidArgument, InvalidInput, QuireError
from quire.graph.catalog import Catalog
from quire.graph.embed import embedder
from quire.graph.reading.blobs import Blob
from quire.graph.reading.find import Find
from quire.lake.commit import validators
from quire.lake.read.diff import Diff, RowDiff, TableDiff
from quire.lake.upkeep.cleanup.leases import SnapshotLease
from quire.lake.upkeep.recovery import Maintenance

EACH = int(os.environ.get("QUIRE_ODD_CALLS", budget(3, full=40)))
"""How many odd values every parameter is given; 40 is all of them."""
SEED = int(os.environ.get("QUIRE_SEED", datetime.date.today().toordinal()))

SCHEMA = """
interface Named { name: String }
node Person implements Named { name: String @key  age: I32?  near: Vector(2)?  photo: Blob? }
edge Knows: Person -> Person { since: Date? }
"""
ASKED = "query q($name: String) { match { $p: Person { name: $name } } return { $p.name } }"
CHANGED = "query m($name: String) { insert Person { name: $name } }"
ROW = [{"id": 9, "text": "a", "v": [1.0, 2.0]}]


@dataclass
class World:
    """A lake, a graph, and every public function by the class that it belongs to."""

    folder: Path
    lake: quire.Lake
    graph: quire.Graph
    calls: dict[str, list[Call]]

    def ready(self) -> None:
        """Put back what a call has taken away, so that the next one finds something to work on."""
        if not {"keyed", "plain"} <= set(self.lake.snapshot().tables()):
            _fill(self.lake)
        if "node:Person" not in self.graph.lake.snapshot().tables():
            _fill_graph(self.graph)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One for every test: what the calls of one class do must not leave the others without tables."""
    before = Path.cwd()
    os.chdir(tmp_path)  # a relative name that is accepted ends up there
    lake = quire.create(tmp_path / "lake")
    _fill(lake)
    graph = quire.Graph(quire.create(tmp_path / "graph"))
    _fill_graph(graph)
    yield World(tmp_path, lake, graph, _calls(lake, graph, tmp_path))
    lake.close()
    graph.lake.close()
    os.chdir(before)
    shutil.rmtree(tmp_path, ignore_errors=True)


def _fill(lake: quire.Lake) -> None:
    with lake.transaction("start", fresh=True) as tx:
        for name in {"keyed", "plain"} & set(tx.tables()):
            tx.drop_table(name)
        schema = pa.schema({"id": pa.int64(), "text": pa.string(), "v": pa.list_(pa.float32(), 2)})
        tx.create_table("keyed", [{**ROW[0], "id": i} for i in range(4)], schema=schema, key="id")
        tx.create_table("plain", [{"id": 1, "n": 1.5}])
        tx["keyed"].create_index("text", "INVERTED")


def _fill_graph(graph: quire.Graph) -> None:
    graph.apply_schema(SCHEMA, drop_data=True)
    graph.load([{"type": "Person", "data": {"name": "Ada", "age": 3, "photo": "base64:aGk="}}], mode="merge")
    graph.store(ASKED)


def _calls(lake: quire.Lake, graph: quire.Graph, folder: Path) -> dict[str, list[Call]]:
    guarded = quire.open(folder / "lake", guarded=True, backfill=False)

    def changed() -> Any:
        before = lake.refresh()
        lake.transact(lambda tx: tx["keyed"].upsert([{**ROW[0], "id": 1, "text": f"other {next(_numbers)}"}]))
        return lake.diff(before)["keyed"]

    return {
        "functions": list(_functions(folder, lake)),
        "Lake": list(calls_of(quire.Lake, lambda: lake, _of_lake(lake, folder), frozenset({"close", "acting"}))),
        "guarded lake": [
            call_of("Lake.acting", quire.Lake.acting, lambda: guarded.acting, {"actor": "ada", "roles": ["analyst"]})
        ],
        "Snapshot": list(calls_of(quire.Snapshot, lake.snapshot, {**_READS, **_BY_NAME, "export": _place(folder)})),
        "Table": list(calls_of(quire.Table, lambda: lake["keyed"], {**_READS, **_HEADS})),
        "Rows": list(calls_of(quire.Rows, lambda: lake["keyed"].scan(), {"into": {"kind": dict}})),
        "Log": list(calls_of(quire.Log, lambda: lake.log(), {"__getitem__": {"index": 0}})),
        "Receipt": list(calls_of(quire.Receipt, lambda: lake.transact(lambda tx: tx.commit()), {})),
        "Diff": list(calls_of(Diff, lambda: lake.diff("0.0"), _BY_NAME)),
        "TableDiff": list(calls_of(TableDiff, changed, {"some": {"most": 1}}, frozenset({"frame"}))),
        "RowDiff": list(calls_of(RowDiff, lambda: changed().rows, {"first": {"most": 1}})),
        "SnapshotLease": list(calls_of(SnapshotLease, lambda: lake.snapshot().lease(), {})),
        "Maintenance": list(calls_of(Maintenance, lambda: lake.maintain(every=1e6), {})),
        "Transaction": list(calls_of(quire.Transaction, lambda: lake.transaction("x"), _of_transaction(folder))),
        "TransactionTable": list(
            calls_of(quire.TransactionTable, lambda: lake.transaction("x")["keyed"], {**_READS, **_HEADS, **_WRITES})
        ),
        "Graph": list(calls_of(quire.Graph, lambda: graph, _of_graph(folder))),
        "Find": list(calls_of(Find, lambda: graph.find("Person"), _OF_FIND)),
        "Catalog": list(calls_of(Catalog, graph.catalog, _of_catalog(graph), _INTERNAL)),
        "Blob": list(calls_of(Blob, lambda: graph.blob("Person", "Ada", property="photo"), _OF_BLOB, _OF_FILES)),
    }


def _functions(folder: Path, lake: quire.Lake) -> Iterator[Call]:
    (folder / "plain.csv").write_text("id,n\n2,2.5\n")
    plan = {"sources": [{"table": "plain", "files": str(folder / "plain.csv")}]}
    for name, function, right in (
        ("open", quire.open, {"uri": folder / "lake"}),
        ("create", quire.create, {"uri": folder / "lake", "exist_ok": True}),
        ("connect", quire.connect, {"url": "http://127.0.0.1:1/lake", "timeout": 0.5}),
        ("token", quire.token, {}),
        ("repair", quire.repair, {"uri": folder / "lake", "dry_run": True}),
        ("metrics", quire.metrics, {}),
        ("Graph", quire.Graph, {"lake": lake}),
        ("pipeline.run", pipeline.run, {"lake": lake, "plan": plan, "pipeline": plan}),
        ("pipeline.read_pipeline", pipeline.read_pipeline, {"source": plan}),
        ("pipeline.size_of", pipeline.size_of, {"lake": lake, "pipeline": plan}),
        ("embedder", embedder, {"name": "hash:64"}),
        ("validators.install", validators.install, {"name": "odd", "validator": lambda tx, names: None}),
    ):
        yield call_of(name, function, lambda function=function: function, right)


_numbers = itertools.count()


def _free(word: str) -> Each:
    return Each(lambda: f"{word}{next(_numbers)}")


def _place(folder: Path) -> dict[str, Any]:
    return {"folder": Each(lambda: folder / f"out{next(_numbers)}")}


def _foreign(folder: Path) -> str:
    """A new Lance table outside the lake."""
    place = str(folder / "shop" / f"orders{next(_numbers)}.lance")
    lance.write_dataset(pa.table({"id": [1]}), place)
    return place


_READS: dict[str, dict[str, Any]] = {"sql": {"query": "select 1"}, "search": {"query": [1.0, 2.0]}}
_BY_NAME: dict[str, dict[str, Any]] = {"__getitem__": {"name": "keyed"}, "__contains__": {"name": "keyed"}}
_HEADS: dict[str, dict[str, Any]] = {}
_INTERNAL = frozenset({"by_id", "has_id", "source", "target"})
"""They take ids and definitions that only the schema's own modules know."""
_OF_FILES = frozenset({"readinto", "seek"})
"""Called by Python's own files, which expect Python's own errors."""
_OF_BLOB: dict[str, dict[str, Any]] = {
    "read_range": {"offset": 0, "length": 1},
}


def _of_catalog(graph: quire.Graph) -> dict[str, dict[str, Any]]:
    return {
        "node": {"name": "Person"},
        "edge": {"name": "Knows"},
        "interface": {"name": "Named"},
        "implementing": {"interface": "Named"},
        "touching": {"node": Each(lambda: graph.catalog().node("Person"))},
    }


def _of_transaction(folder: Path) -> dict[str, dict[str, Any]]:
    return {
        "create_table": {"name": "new", "data": [{"id": 1}]},
        "register_table": {"name": "new", "uri": Each(lambda: _foreign(folder))},
        "drop_table": {"name": "plain"},
        "rename_table": {"old": "plain", "new": "other"},
        "sql": {"query": "select 1"},
        "__getitem__": {"name": "plain"},
        "__contains__": {"name": "plain"},
    }


_WRITES: dict[str, dict[str, Any]] = {
    "append": {"data": ROW},
    "insert": {"data": ROW},
    "upsert": {"data": ROW},
    "overwrite": {"data": ROW},
    "update": {"exprs": {"text": "'a'"}},
    "delete": {"where": "id = 1"},
    "add_columns": {"columns": {"z": "1"}},
    "drop_columns": {"names": "text"},
    "rename_column": {"old": "text", "new": "words"},
    "alter_column": {"name": "text", "nullable": True},
    "create_index": {"column": "id"},
    "drop_index": {"name": "text_idx"},
    "require_keys": {"values": [1]},
    "require_absent": {"values": [9]},
    "require_none": {"column": "id", "values": [9]},
    "set_rules": {"rules": "x"},
    "identified_by": {"on": "id"},
    "hand_in": {"handed": None},
}
_OF_FIND: dict[str, dict[str, Any]] = {
    "out": {"edge": "knows"},
    "into": {"edge": "knows"},
    "either": {"edge": "knows"},
    "without": {"edge": "knows"},
    "limit": {"count": 1},
    "offset": {"count": 1},
    "nearest": {"name": "near", "to": [1.0, 2.0]},
    "where": {"named": {"name": "Ada"}},
}


def _of_lake(lake: quire.Lake, folder: Path) -> dict[str, dict[str, Any]]:
    def branch() -> str:
        name = f"b{next(_numbers)}"
        lake.create_branch(name)
        return name

    def tag() -> str:
        name = f"t{next(_numbers)}"
        lake.tag(name)
        return name

    def commit() -> str:
        lake.transact(lambda tx: tx["plain"].append([{"id": 2, "n": 0.5}]))
        return lake.head

    lance.write_dataset(pa.table({"id": [1]}), str(folder / "shop" / "orders.lance"))
    return {
        **_READS,
        **_BY_NAME,
        "show": {"commit": "1.0"},
        "diff": {"a": "0.0"},
        "export": _place(folder),
        "transact": {"fn": lambda tx: 1},
        "revert": {"commit": Each(commit)},
        "restore": {"at": "1.0"},
        "history": {"table": "keyed", "key": 1},
        "outcome": {"unsettled": "log/1/write"},
        "branch": {"name": "main"},
        "create_branch": {"name": _free("branch")},
        "delete_branch": {"name": Each(branch)},
        "fast_forward": {"source": Each(branch)},
        "merge": {"source": Each(branch)},
        "cherry_pick": {"commit": "1.0"},
        "tag": {"name": _free("tag")},
        "delete_tag": {"name": Each(tag)},
        "adopt": {"table": "keyed"},
        "take_over": {"table": "keyed"},
        "register_database": {"uri": folder / "shop", "dry_run": True},
        "create_table": {"name": _free("table"), "data": ROW},
    }


def _of_graph(folder: Path) -> dict[str, dict[str, Any]]:
    named = {"params": {"name": "Ada"}}
    return {
        "apply_schema": {"schema": SCHEMA},
        "plan_schema": {"schema": SCHEMA},
        "load": {"source": [{"type": "Person", "data": {"name": "Bo"}}], "mode": "merge"},
        "mutate": {"query": CHANGED, "options": {"author": "Ada"}, **named},
        "query": {"query": ASKED, **named},
        "explain": {"query": ASKED, **named},
        "check": {"query": ASKED},
        "lint": {"queries": ASKED},
        "store": {"queries": ASKED},
        "node": {"type": "Person", "key": ["Ada"]},
        "neighbours": {"type": "Person", "key": ["Ada"]},
        "history": {"type": "Person", "key": ["Ada"]},
        "unstore": {"names": []},
        "find": {"type": "Person"},
        "blob": {"type": "Person", "key": ["Ada"], "property": "photo"},
        "table": {"type": "Person"},
        "algorithm": {"name": "degree", "edge": "Knows"},
        "write_algorithm": {"name": "degree", "edge": "Knows", "property": "age"},
        "paths": {"edge": "Knows", "source": "Ada", "target": "Ada"},
        "export": {"path": Each(lambda: folder / f"out{next(_numbers)}.ndjson")},
    }


KINDS = (
    *(
        "functions",
        "Lake",
        "guarded lake",
        "Snapshot",
        "Table",
        "Rows",
        "Log",
        "Receipt",
        "Diff",
        "TableDiff",
        "RowDiff",
    ),
    *("SnapshotLease", "Maintenance", "Transaction", "TransactionTable", "Graph", "Find", "Catalog", "Blob"),
)
NEED_MORE = {
    "connect": "server-unavailable",  # there is no server
    "Lake.at": "invalid-input",  # one of three, and which one is what is asked with odd values
    "Lake.outcome": "corrupt-record",
    "Lake.take_over": "invalid-input",  # the lake has no table that it does not own
    "TransactionTable.hand_in": "invalid-argument",  # what engines hand in
    "Find.where": "invalid-query",
}
"""Calls that right arguments alone do not make work, and how they end."""


@pytest.mark.parametrize("kind", KINDS)
def test_right_arguments_work(world: World, kind: str) -> None:
    """Else odd ones would be refused for another reason, and nothing would be seen of them."""
    failed = {}
    for call in world.calls[kind]:
        world.ready()
        positional, named = call.arguments()
        try:
            _finish(call.function()(*positional, **named))
        except QuireError as error:
            failed[call.name] = error.kind
    assert failed == {name: kind for name, kind in NEED_MORE.items() if name in failed}


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_odd_arguments_are_refused_by_errors_of_quire(world: World, kind: str) -> None:
    chance = random.Random(f"{SEED} {kind}")
    foreign = []
    for call in world.calls[kind]:
        for parameter in call.parameters:
            world.ready()
            for what in chance.sample(sorted(ODD_VALUES), min(EACH, len(ODD_VALUES))):
                if not (what == "a class" and parameter.name in ("fn", "progress")):  # its own error comes out
                    foreign += _tried(call, parameter.name, what)
    assert not foreign, "\n".join([f"seed {SEED}", *foreign])
    assert world.calls[kind], kind


def _tried(call: Call, parameter: str, what: str) -> list[str]:
    positional, named = call.arguments(parameter, ODD_VALUES[what]())
    try:
        _finish(call.function()(*positional, **named))
    except QuireError as error:
        if str(error) and error.to_dict()["kind"] == error.kind:
            return []
        return [f"{call.name}({parameter}={what}): an error that cannot be shown"]
    except BaseException as error:  # a panic of a library is no Exception
        if isinstance(error, IndexError) and call.name == "Log.__getitem__":
            return []  # what ends an iteration, as for a list
        return [f"{call.name}({parameter}={what}): {type(error).__name__}: {str(error)[:200]}"]
    return []


def _finish(result: Any) -> None:
    """Use what came back as its reader would, and give back what it holds."""
    repr(result)
    if isinstance(result, quire.Rows):
        result.to_arrow()
    for end in ("discard", "release", "stop"):
        method: Callable[[], Any] | None = getattr(type(result), end, None)
        if method is not None:
            getattr(result, end)()


def test_every_public_class_is_covered(world: World) -> None:
    classes = {name for name in quire.__all__ if isinstance(getattr(quire, name), type)}
    plain = {"Outcome", "StreamToken", "TableReceipt", "CommitInfo"} | {n for n in classes if hasattr(quire.errors, n)}
    assert classes - plain <= set(world.calls)
    assert {n for n in quire.__all__ if callable(getattr(quire, n))} - classes <= {
        c.name for c in world.calls["functions"]
    }


# -- what the messages say ------------------------------------------------------------------------------------

SAID: list[tuple[Callable[[quire.Lake], Any], str, str]] = [
    (lambda lake: quire.open(None), "'uri' of open() must be text or a path, not None", "Give text or a path."),
    (lambda lake: lake[3], "'name' of Lake[…] must be text, not 3", "Give text."),
    (lambda lake: lake.transaction(timeout="5"), "must be a number or None, not '5'", "Write 5, without quotes."),
    (lambda lake: lake.transaction(timeout=float("nan")), "timeout must be at least 0, not nan", "Correct it."),
    (lambda lake: lake.log(limit=-1), "limit must be at least 0, not -1", "Correct it."),
    (lambda lake: lake.log(limit=True), "'limit' of Lake.log() must be a whole number or None, not True", "Give"),
    (lambda lake: lake.optimize("t"), "'tables' of Lake.optimize() must be a list of text", "Write ['t']."),
    (lambda lake: lake.optimize(target_rows=0), "target_rows must be at least 1, not 0", "Correct it."),
    (lambda lake: lake.optimize(deleted=7), "deleted must be between 0 and 1, not 7", "Correct it."),
    (lambda lake: lake.transaction(timeot=5), "unexpected keyword argument 'timeot'", "Did you mean 'timeout'?"),
    (lambda lake: lake.tag(), "missing a required argument: 'name'", "It takes name, at, message."),
    (lambda lake: lake.transaction(isolation="chaos"), "must be 'snapshot' or 'serializable', not 'chaos'", "Give"),
    (lambda lake: lake.transaction(expect={"t": "1"}), "must be a dict from text to a whole number", "Give"),
    (lambda lake: lake.diff(Rude()), "must be text, not a Rude", "Give text."),
    (lambda lake: lake.tag("half \ud800"), "must be text", "Give text."),
    (lambda lake: lake.transact(lambda tx: 1, retries=-1), "retries must be at least 0, not -1", "Correct it."),
    (lambda lake: lake.cleanup(keep=2**70), "keep must be at most", "Correct it."),
    (lambda lake: lake.create_table("u", schema=Odd()), "is not a schema for table 'u'", "Pass a pyarrow schema"),
]


@pytest.mark.parametrize(("call", "says", "then"), SAID, ids=[says[:40] for _, says, _ in SAID])
def test_the_message_names_the_argument_and_what_it_takes(
    call: Callable[[quire.Lake], Any], says: str, then: str
) -> None:
    lake = quire.create("memory://odd-messages", exist_ok=True)
    head = lake.head
    with pytest.raises(InvalidInput) as caught:
        call(lake)
    assert says in caught.value.message
    assert caught.value.next is not None
    assert then in caught.value.next
    assert lake.refresh() == head


def test_a_wrong_argument_is_a_type_error_too() -> None:
    with pytest.raises(TypeError) as caught:
        quire.open(5)  # type: ignore[arg-type]
    assert isinstance(caught.value, InvalidArgument)
    assert caught.value.fields == {
        "function": "open()", "argument": "uri", "expected": "text or a path", "actual": "int"
    }  # fmt: skip


def test_what_a_program_raises_comes_out_as_it_is(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake")

    def broken(*_: Any) -> None:
        raise TypeError("mine")

    for call in (lambda: lake.transact(broken), lambda: lake.verify(broken), lambda: lake.optimize(progress=broken)):
        with pytest.raises(TypeError, match="^mine$") as caught:
            call()
        assert not isinstance(caught.value, QuireError)


@pytest.mark.parametrize("place", ["/proc/nowhere/lake", "/dev/null/lake", "/sys/lake"])
def test_a_folder_that_takes_no_lake_is_named(place: str) -> None:
    with pytest.raises(QuireError) as caught:
        quire.create(place)
    assert place in caught.value.message
    assert caught.value.next


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    import numpy as np

    lake = quire.create(tmp_path / "lake")
    lake.create_table("t", [{"id": i} for i in range(3)])
    assert [len(list(lake.log(np.int32(n)))) for n in range(3)] == [0, 1, 2]
    assert lake["t"].scan(limit=np.int64(2)).to_arrow().num_rows == 2
    with lake.transaction("soon", timeout=np.float64(60), fresh=np.bool_(True)) as tx:
        tx["t"].append([{"id": 3}])
    assert list(itertools.chain(lake["t"].to_pylist()))[-1] == {"id": 3}


def test_numbers_of_numpy_are_positions_of_streams(tmp_path: Path) -> None:
    import numpy as np

    assert quire.StreamToken("s", np.int64(5)) == quire.StreamToken("s", 5)  # type: ignore[arg-type]
    lake = quire.create(tmp_path / "lake")
    for repeated in (False, True):
        with lake.transaction("once", token=quire.StreamToken("s", np.uint8(5))) as tx:  # type: ignore[arg-type]
            if "t" not in tx:
                tx.create_table("t", [{"id": 1}])
        assert (tx.receipt is not None and tx.receipt.repeated) == repeated
    for wrong in (True, 1.0, -1, "5", None):
        with pytest.raises(quire.errors.InvalidToken):
            lake.transaction("once", token=quire.StreamToken("s", wrong))  # type: ignore[arg-type]


def test_what_counts_in_an_index_is_checked_before_it_is_built(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake")
    schema = pa.schema({"v": pa.list_(pa.float32(), 2), "s": pa.string()})
    lake.create_table("t", [{"v": [1.0, 2.0], "s": "a"}], schema=schema)
    with lake.transaction("odd") as tx:
        for column, kind, option in (
            ("v", "IVF_FLAT", "num_partitions"),
            ("v", "IVF_HNSW_SQ", "m"),
            ("s", "ZONEMAP", "rows_per_zone"),
        ):
            for value in (-1, 0, 1.5, True, "8", None, 2**70):
                said = f"^{option} of {kind} indexes must be a whole number from 1"
                with pytest.raises(InvalidInput, match=said) as caught:
                    tx["t"].create_index(column, kind=kind, **{option: value})
                assert caught.value.fields["option"] == option
        tx.discard()


@pytest.mark.parametrize("emptied", [False, True])
def test_a_bitmap_index_needs_rows(emptied: bool) -> None:
    lake = quire.create(f"memory://bitmap-{emptied}")
    lake.create_table("t", [{"s": "a"}] if emptied else None, schema=pa.schema({"s": pa.string()}))
    with lake.transaction("empty") as tx:
        tx["t"].delete("true")

    def index(tx: quire.Transaction) -> None:
        tx["t"].create_index("s", kind="BITMAP")

    with pytest.raises(InvalidInput, match="has no rows, and a BITMAP index"):
        lake.transact(index)
    with lake.transaction("rows") as tx:
        tx["t"].append([{"s": "b"}])
    lake.transact(index)
    assert lake["t"].scan(filter="s = 'b'").to_pylist() == [{"s": "b"}]


@pytest.mark.parametrize("path", ["x" * 5000, "/".join(["x" * 200] * 40)])
def test_a_path_that_no_record_can_hold_is_refused(tmp_path: Path, path: str) -> None:
    lake = quire.create(tmp_path / "lake")
    with lake.transaction("far") as tx:
        with pytest.raises(InvalidInput, match="a lake keeps at most 4096") as caught:
            tx.register_table("t", f"{tmp_path}/{path}")
        assert caught.value.next
        tx.discard()


def test_what_lies_beside_the_methods_of_a_class_is_safe_too(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake")
    receipt = lake.create_table("t", [{"id": 1}])
    diff = lake.diff("0.0")
    for odd in (value() for value in ODD_VALUES.values()):
        assert odd not in diff
        with pytest.raises(InvalidInput):
            embedder(odd)
    assert len({receipt, receipt}) == 1
    assert diff["t"].some(2**40).added.num_rows == 1
    for most in (-1, 2**70):
        with pytest.raises(InvalidInput, match="most must be"):
            diff["t"].some(most)
