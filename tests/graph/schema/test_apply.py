"""Schema changes as commits: values before and after, refusals, branches, and others who write at the same time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from tests.graph.schema.given import applied, catalog, put, stored

import quire
from quire.errors import Conflict, SchemaRefused
from quire.graph.catalog import STORED
from quire.graph.schema.apply import apply
from quire.graph.schema.printer import show

BASE = "node P { name: String @key age: I32? mood: enum(up, down)? } edge K: P -> P { w: F32? }"
LOWER = BASE.replace("P -> P", "P -> P @card(1..)")


@pytest.fixture
def filled(lake: quire.Lake) -> quire.Lake:
    """a (3, up) knows b (no age, down) twice."""
    applied(lake, BASE)
    put(lake, "node:P", {"id": "a", "name": "a", "age": 3, "mood": "up"}, {"id": "b", "name": "b", "mood": "down"})
    put(lake, "edge:K", {"id": "1", "src": "a", "dst": "b", "w": 0.5}, {"id": "2", "src": "a", "dst": "b"})
    return lake


def refusals(lake: quire.Lake, text: str, **options: Any) -> list[dict[str, Any]]:
    before = lake.refresh()
    with pytest.raises(SchemaRefused) as caught:
        applied(lake, text, **options)
    assert lake.refresh() == before, "a refused change commits nothing"
    found: list[dict[str, Any]] = caught.value.refusals
    return found


# -- making a graph ---------------------------------------------------------------------------------------------------


def test_a_schema_is_one_commit_and_the_same_text_again_is_none(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        assert apply(tx, BASE)
    assert tx.receipt is not None
    assert tx.receipt.commit == "1.0"
    assert lake.tables() == ["edge:K", STORED, "node:P"]
    assert catalog(lake).text == BASE
    with lake.transaction() as tx:
        assert not apply(tx, BASE)
    assert tx.receipt is not None
    assert tx.receipt.commit is None


def test_what_was_applied_is_what_is_shown(lake: quire.Lake) -> None:
    applied(lake, BASE)
    text = show(catalog(lake))
    assert [s.action for s in applied(lake, text).steps] == ["keep-text"]
    assert show(catalog(lake)) == text


def test_indexes_are_there_from_the_start_and_vectors_wait_for_rows(lake: quire.Lake) -> None:
    text = "node A { k: String @key t: String @index u: I32? @unique v: Vector(2)? @index } edge E: A -> A"
    applied(lake, text)

    def found(table: str) -> set[tuple[str, str]]:
        return {(i["columns"][0], i["kind"]) for i in lake[table].indexes()}

    scalars = {("id", "BTree"), ("k", "BTree"), ("t", "BTree"), ("t", "Inverted"), ("u", "BTree")}
    assert found("node:A") == scalars
    assert found("edge:E") == {("id", "BTree"), ("src", "BTree"), ("dst", "BTree")}
    put(lake, "node:A", {"id": "x", "k": "x", "t": "some text", "v": [1.0, 2.0]})
    applied(lake, text.replace("u: I32? @unique", "u: I32? @index"))
    assert found("node:A") == scalars | {("v", "IVF_FLAT")}
    applied(lake, text.replace("t: String @index", "t: String").replace("u: I32? @unique", "u: I32?"))
    assert found("node:A") == {("id", "BTree"), ("k", "BTree"), ("v", "IVF_FLAT")}


# -- changes that keep rows -------------------------------------------------------------------------------------------


def test_renames_keep_identity_rows_and_indexes(filled: quire.Lake) -> None:
    before = catalog(filled)
    text = (
        'node Q @rename_from("P") { title: String @key @rename_from("name") age: I32? mood: enum(up, down)? }'
        'edge L: Q -> Q @rename_from("K") { weight: F32? @rename_from("w") }'
    )
    applied(filled, text)
    after = catalog(filled)
    assert after.node("Q").id == before.node("P").id
    assert after.edge("L").id == before.edge("K").id
    assert after.node("Q").property("title").id == before.node("P").property("name").id
    assert after.source(after.edge("L")).name == "Q"
    assert stored(filled, "node:Q") == {
        "a": {"title": "a", "age": 3, "mood": "up"},
        "b": {"title": "b", "age": None, "mood": "down"},
    }
    assert stored(filled, "edge:L")["1"] == {"src": "a", "dst": "b", "weight": 0.5}
    assert {i["columns"][0] for i in filled["node:Q"].indexes()} == {"id", "title"}
    assert not applied(filled, text)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ('String @default("it\'s `x` \\\\ é")', "it's `x` \\ é"),
        ("Bool @default(true)", True),
        ("I32 @default(-5)", -5),
        ("I64 @default(-9223372036854775808)", -(2**63)),
        ("U32 @default(4294967295)", 2**32 - 1),
        ("U64 @default(18446744073709551615)", 2**64 - 1),
        ("F32 @default(0.5)", 0.5),
        ("F64 @default(0.1)", 0.1),
        ('Date @default("2024-02-29")', dt.date(2024, 2, 29)),
        ('DateTime @default("2024-02-29T12:00:00.000001Z")', dt.datetime(2024, 2, 29, 12, 0, 0, 1, dt.UTC)),
        ("enum(x, y) @default(y)", "y"),
        ("String?", None),
        ("I32? @default(5)", None),
        ("[I32]?", None),
        ("Vector(3)?", None),
    ],
)
def test_a_new_property_is_null_or_has_its_default(filled: quire.Lake, declared: str, value: Any) -> None:
    applied(filled, BASE.replace("age: I32?", f"age: I32? more: {declared}"))
    assert {row["more"] for row in stored(filled, "node:P").values()} == {value}
    prop = catalog(filled).node("P").property("more")
    field = filled["node:P"].schema.field("more")
    assert (field.type, field.nullable) == (prop.type.arrow(), True)


@pytest.mark.parametrize(
    ("old", "new"), [("I32", "I64"), ("U32", "U64"), ("U32", "I64"), ("F32", "F64"), ("[I32]", "[I64]")]
)
def test_numbers_widen_and_keep_their_values(lake: quire.Lake, old: str, new: str) -> None:
    value: Any = [7, 8] if "[" in old else 7
    applied(lake, f"node A {{ n: {old}? x: I32? }}")
    put(lake, "node:A", {"id": "1", "n": value, "x": 1}, {"id": "2"})
    applied(lake, f"node A {{ n: {new}? x: I32? }}")
    assert stored(lake, "node:A") == {"1": {"n": value, "x": 1}, "2": {"n": None, "x": None}}
    assert lake["node:A"].schema.field("n").type == catalog(lake).node("A").property("n").type.arrow()


def test_rules_enums_and_annotations_change_without_touching_rows(filled: quire.Lake) -> None:
    before = stored(filled, "node:P")
    text = (
        "interface I { age: I32? }"
        'node P @doc("x") implements I { name: String @key @check(name, "[ab]") mood: enum(down, up, flat)? @unit(1)'
        " @range(age, 0..3) @unique(mood) } edge K: P -> P @card(0..2) { w: F32? }"
    )
    applied(filled, text)
    assert stored(filled, "node:P") == before
    defined = catalog(filled).node("P").defined
    assert (defined.unique, defined.implements) == ((("mood",),), ("I",))
    assert catalog(filled).edge("K").defined.at_most == 2
    applied(filled, BASE)
    assert catalog(filled).node("P").defined.unique == ()
    assert stored(filled, "node:P") == before


def test_a_property_id_is_never_used_again(lake: quire.Lake) -> None:
    applied(lake, "node A { a: I32? b: I32? }")
    applied(lake, "node A { a: I32? }")
    applied(lake, "node A { a: I32? c: I32? }")
    assert [p.id for p in catalog(lake).node("A").defined.properties] == [1, 3]


@pytest.mark.parametrize("rows", [0, 1])
def test_a_blob_is_added_to_empty_and_filled_types(lake: quire.Lake, rows: int) -> None:
    applied(lake, "node A { n: I32? }")
    if rows:
        put(lake, "node:A", {"id": "1", "n": 1})
    applied(lake, "node A { n: I32? pic: Blob? }")
    applied(lake, "node A { n: I32? pic: Blob? } node B { pic: Blob }")
    assert catalog(lake).node("A").property("pic").type.base == "Blob"
    assert lake["node:A"].count("`pic` is null") == rows
    applied(lake, "node A { n: I32? } node B { pic: Blob }")
    assert lake["node:A"].schema.names == ["id", "n"]


# -- drops ------------------------------------------------------------------------------------------------------------


def test_empty_types_and_properties_are_dropped(lake: quire.Lake) -> None:
    applied(lake, BASE)
    applied(lake, "node P { name: String @key }")
    assert lake["node:P"].schema.names == ["id", "name"]
    assert lake.tables() == [STORED, "node:P"]
    applied(lake, "")
    assert lake.tables() == [STORED]


def test_data_is_dropped_only_when_that_is_said(filled: quire.Lake) -> None:
    text = "node P { name: String @key age: I32? }"
    found = refusals(filled, text)
    assert [(r["code"], r["type"], r["rows"], r["examples"]) for r in found] == [
        ("drops-data", "K", 2, ["1", "2"]),
        ("drops-data", "P", 2, ["a", "b"]),
    ]
    applied(filled, text, drop_data=True)
    assert filled.tables() == [STORED, "node:P"]
    assert stored(filled, "node:P") == {"a": {"name": "a", "age": 3}, "b": {"name": "b", "age": None}}


# -- rows that prevent a change ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "rows", "examples"),
    [
        (BASE.replace("age: I32?", "age: I32"), "missing-values", 1, ["b"]),
        (BASE.replace("age: I32?", "age: I32? n: I32"), "required-without-default", 2, ["a", "b"]),
        (BASE.replace("up, down", "up, flat"), "enum-values", 1, ["b"]),
        (BASE.replace("String @key", "enum(a) @key"), "enum-values", 1, ["b"]),
        (BASE.replace("I32?", "I32? @range(age, 4..)"), "range", 1, ["a"]),
        (BASE.replace("I32?", "I32? @range(age, ..2)"), "range", 1, ["a"]),
        (BASE.replace("I32?", 'I32? @check(name, "a|c")'), "check", 1, ["b"]),
        (BASE.replace("F32?", "F32? @unique(src, dst)"), "unique", 2, ["1", "2"]),
        (BASE.replace("F32?", "F32? n: I32 @default(1) @unique(n)"), "unique", 2, ["1", "2"]),
        (BASE.replace("P -> P", "P -> P @card(0..1)"), "card", 1, ["a"]),
        (BASE.replace("P -> P", "P -> P @card(1..)"), "card", 1, ["b"]),
        (BASE + " edge New: P -> P @card(1..)", "card", 2, ["a", "b"]),
        (BASE.replace("String @key", "String"), "key-changed", 2, ["a", "b"]),
        (BASE.replace("P -> P", "P -> Q") + " node Q {}", "ends-changed", 2, ["1", "2"]),
    ],
)
def test_a_refused_change_says_which_rows_stand_against_it(
    filled: quire.Lake, text: str, code: str, rows: int, examples: list[str]
) -> None:
    [found] = refusals(filled, text)
    assert (found["code"], found["rows"], found["examples"]) == (code, rows, examples)
    assert found["next"]


def test_what_rows_forbid_is_fine_without_rows(lake: quire.Lake) -> None:
    applied(lake, BASE)
    applied(
        lake,
        "node P { name: String age: I32 n: I64 mood: enum(x)? @key(name, n) @range(age, 5..) @unique(mood) } node Q {}"
        " edge K: P -> Q @card(1..1) { w: F32? @unique(src, dst) }",
    )
    assert catalog(lake).node("P").defined.key == ("name", "n")
    assert catalog(lake).target(catalog(lake).edge("K")).name == "Q"


def test_every_refusal_is_listed_and_the_transaction_stays_as_it_was(filled: quire.Lake) -> None:
    text = BASE.replace("age: I32?", "age: I32 @range(age, 9..)").replace("F32?", "Date?")
    with filled.transaction() as tx:
        with pytest.raises(SchemaRefused) as caught:
            apply(tx, text)
        tx["node:P"].upsert([{"id": "b", "age": 9}])
    assert [r["code"] for r in caught.value.refusals] == ["missing-values", "range", "type-changed"]
    assert "(2 more in `refusals`.)" in str(caught.value)
    assert stored(filled, "node:P")["b"] == {"name": "b", "age": 9, "mood": "down"}


def test_rules_that_are_kept_are_not_asked_again(filled: quire.Lake) -> None:
    text = BASE.replace("I32?", "I32? @range(age, 0..5)")
    applied(filled, text)
    assert [s.action for s in applied(filled, text.replace("F32?", "F32? more: String?")).steps] == ["add-property"]


# -- branches ---------------------------------------------------------------------------------------------------------


def test_a_branch_keeps_its_schema_and_its_rows(filled: quire.Lake) -> None:
    filled.create_branch("old")
    applied(filled, BASE.replace("age: I32?", "years: I32? @rename_from(age)").replace("F32?", "F64?"))
    old = filled.branch("old")
    assert catalog(old).text == BASE
    assert stored(old, "node:P")["a"] == {"name": "a", "age": 3, "mood": "up"}
    applied(old, BASE.replace("age: I32?", "age: I64?"))
    put(old, "node:P", {"id": "c", "name": "c", "age": 2**40})
    assert stored(old, "node:P")["c"]["age"] == 2**40
    assert stored(filled, "node:P")["a"] == {"name": "a", "years": 3, "mood": "up"}
    assert filled.at(commit="1.0")["node:P"].schema.names == ["id", "name", "age", "mood"]


# -- others at the same time ------------------------------------------------------------------------------------------


def _load(table: str, row: dict[str, Any]) -> Callable[[quire.Transaction], Any]:
    return lambda tx: tx[table].insert([row], missing="null")


RACES: dict[str, tuple[Callable[[quire.Transaction], Any], Callable[[quire.Transaction], Any]]] = {
    "two schemas": (
        lambda tx: apply(tx, BASE + " node Q {}"),
        lambda tx: apply(tx, BASE + " node R {}"),
    ),
    "a rule and a row that breaks it": (
        lambda tx: apply(tx, BASE.replace("I32?", "I32? @range(age, 0..5)")),
        _load("node:P", {"id": "c", "name": "c", "age": 9}),
    ),
    "a lower bound and a node without edges": (
        lambda tx: apply(tx, LOWER),
        _load("node:P", {"id": "c", "name": "c"}),
    ),
    "a drop and a row": (
        lambda tx: apply(tx, BASE.split(" edge")[0], drop_data=True),
        _load("edge:K", {"id": "3", "src": "b", "dst": "a"}),
    ),
}


@pytest.mark.parametrize("first", [0, 1], ids=["schema first", "schema last"])
@pytest.mark.parametrize("race", RACES)
def test_of_two_that_contradict_each_other_one_is_refused(filled: quire.Lake, race: str, first: int) -> None:
    if "lower" in race:
        put(filled, "edge:K", {"id": "9", "src": "b", "dst": "a"})
    other = quire.open(filled.uri, backfill=False, author="bob")
    mine, theirs = filled.transaction(fresh=True), other.transaction(fresh=True)
    schema, load = RACES[race]
    schema(mine)
    load(theirs)
    one, two = (mine, theirs) if first == 0 else (theirs, mine)
    one.commit()
    with pytest.raises(Conflict):
        two.commit()
    other.close()


def test_a_load_of_another_type_goes_on_beside_a_schema_change(filled: quire.Lake) -> None:
    applied(filled, BASE + " node Q { x: I32? }")
    with quire.open(filled.uri, backfill=False) as other:
        mine, theirs = filled.transaction(fresh=True), other.transaction(fresh=True)
        apply(mine, BASE.replace("I32?", "I32? @index") + " node Q { x: I32? }")
        theirs["node:Q"].insert([{"id": "1", "x": 1}])
        mine.commit()
        theirs.commit()
    assert stored(filled, "node:Q") == {"1": {"x": 1}}


def test_of_two_that_make_the_graph_one_wins_whole(lake: quire.Lake) -> None:
    with quire.open(lake.uri, backfill=False) as other:
        mine, theirs = lake.transaction(), other.transaction()
        apply(mine, "node A {}")
        apply(theirs, "node B {}")
        mine.commit()
        with pytest.raises(Conflict):
            theirs.commit()
    assert lake.tables() == [STORED, "node:A"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('node P { name: String @key  b: I32? @rename_from("a")  a: I32? @rename_from("b")  c: I32? }', "P.b, P.a"),
        (
            'node P { name: String @key  b: I32? @rename_from("a") '
            'a: I32? @rename_from("c")  c: I32? @rename_from("b") }',
            "P.b, P.a, P.c",
        ),
    ],
)
def test_names_that_are_exchanged_are_refused(lake: quire.Lake, text: str, names: str) -> None:
    applied(lake, "node P { name: String @key  a: I32?  b: I32?  c: I32? }")
    put(lake, "node:P", {"id": "x", "name": "x", "a": 1, "b": 2, "c": 3})
    [found] = refusals(lake, text)
    assert (found["code"], found["sentence"].split(" are ")[0]) == ("rename-cycle", names)
    assert found["next"].startswith("Rename in two steps: all of them to new names first")


def test_types_that_exchange_their_names_are_refused(lake: quire.Lake) -> None:
    applied(lake, "node P { name: String @key }  node Q { name: String @key }")
    text = 'node P @rename_from("Q") { name: String @key }  node Q @rename_from("P") { name: String @key }'
    assert [found["code"] for found in refusals(lake, text)] == ["rename-cycle"]


def test_names_are_exchanged_in_two_steps(lake: quire.Lake) -> None:
    applied(lake, "node P { name: String @key  a: I32?  b: I32? }")
    put(lake, "node:P", {"id": "x", "name": "x", "a": 1, "b": 2})
    applied(lake, 'node P { name: String @key  x: I32? @rename_from("a")  y: I32? @rename_from("b") }')
    applied(lake, 'node P { name: String @key  b: I32? @rename_from("x")  a: I32? @rename_from("y") }')
    assert stored(lake, "node:P")["x"] == {"name": "x", "a": 2, "b": 1}
