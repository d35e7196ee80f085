"""What a change of a schema would do, and what prevents it."""

from __future__ import annotations

import pytest
from tests.graph.schema import given

import quire
from quire.graph.catalog import Catalog
from quire.graph.schema.plan import plan
from quire.graph.schema.resolve import catalog

BASE = "node P { name: String @key age: I32? mood: enum(up, down)? } edge K: P -> P { w: F32? }"


def actions(old: Catalog, text: str) -> list[str]:
    found = plan(old, text)
    assert found.refusals == ()
    return [step.action for step in found.steps]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BASE, []),
        (f"// more\n{BASE}", ["keep-text"]),
        (f"{BASE} node Q {{}}", ["add-type"]),
        (BASE.replace("age: I32?", "age: I64?"), ["change-type"]),
        (BASE.replace("w: F32?", "w: F64?"), ["change-type"]),
        (BASE.replace("age: I32?", "age: I32"), ["make-required"]),
        (BASE.replace("up, down", "up, down, flat"), ["widen-enum"]),
        (BASE.replace("up, down", "up"), ["narrow-enum"]),
        (BASE.replace("up, down", "down, up"), ["order-enum"]),
        (BASE.replace("enum(up, down)?", "String?"), ["widen-enum"]),
        (BASE.replace("I32?", "I32? @index @unique"), ["add-constraint", "add-index"]),
        (BASE.replace("I32?", "I32? @range(age, 0..)"), ["add-constraint"]),
        (BASE.replace("P -> P", "P -> P @card(0..1)"), ["add-constraint"]),
        (BASE.replace("I32?", "I32? @unit(years)"), ["change-annotations"]),
        (BASE.replace("node P", "node P @doc(x)"), ["change-annotations"]),
        (BASE.replace("age: I32?", ""), ["drop-property"]),
        (BASE.replace("age: I32?", "years: I32? @rename_from(age)"), ["rename-property"]),
        (BASE.replace("{ w: F32? }", "{ w: F32? x: Date }"), ["add-property"]),
        (BASE.split(" edge")[0], ["drop-type"]),
        (BASE.replace("edge K", "edge Knows").replace("P -> P", 'P -> P @rename_from("K")'), ["rename-type"]),
        (f"interface I {{ age: I32? }} {BASE}", ["add-interface"]),
        (BASE.replace("name: String @key age: I32?", "age: I32? name: String @key"), ["order-properties"]),
    ],
)
def test_every_kind_of_change_is_a_step(text: str, expected: list[str]) -> None:
    assert actions(catalog(BASE), text) == expected


def test_steps_are_sentences_and_data() -> None:
    [step] = plan(catalog(BASE), BASE.replace("I32?", "I64?")).steps
    assert str(step) == "Change P.age from I32 to I64."
    assert step.to_dict() == {
        "action": "change-type",
        "type": "P",
        "sentence": "Change P.age from I32 to I64.",
        "property": "age",
        "from": "I32",
        "to": "I64",
    }


def test_a_rename_that_was_done_is_no_step() -> None:
    renamed = 'node Q @rename_from("P") { title: String @key @rename_from("name") }'
    assert actions(catalog("node P { name: String @key }"), renamed) == ["rename-type", "rename-property"]
    assert actions(catalog(renamed), renamed) == []
    assert actions(catalog(""), renamed) == ["add-type"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (BASE.replace("I32?", "String?"), "type-changed"),
        (BASE.replace("I32?", "U32?"), "type-changed"),
        (BASE.replace("I32?", "[I32]?"), "type-changed"),
        (BASE.replace("F32?", "I64?"), "type-changed"),
        (f'{BASE} node Q @rename_from("P") {{}}', "rename-source-kept"),
        (BASE.replace("I32?", "I32? years: I32? @rename_from(age)"), "rename-source-kept"),
    ],
)
def test_changes_that_no_row_could_allow_are_refused_and_listed(text: str, code: str) -> None:
    [refusal] = plan(catalog(BASE), text).refusals
    assert refusal.code == code
    assert refusal.to_dict()["next"]


def test_a_plan_with_a_snapshot_counts_the_rows_that_stand_against_it(lake: quire.Lake) -> None:
    given.applied(lake, BASE)
    given.put(lake, "node:P", *({"id": f"n{i}", "name": f"n{i}"} for i in range(7)))
    text = BASE.replace("age: I32?", "age: I32")
    assert plan(given.catalog(lake), text).refusals == ()
    [refusal] = plan(given.catalog(lake), text, snapshot=lake.snapshot()).refusals
    assert (refusal.code, refusal.property, refusal.rows, len(refusal.examples)) == ("missing-values", "age", 7, 5)
    assert "7 rows (n0, n1, n2, n3, n4, …) have no value" in str(refusal)


def test_a_rename_from_a_name_that_is_there_beside_the_new_one_is_refused() -> None:
    b = "{ k: String @key  a: String?  b: String? }"
    old = catalog(f"node A {{ k: String @key }} node B {b}")
    assert plan(old, f'node B @rename_from("A") {b}', drop_data=True).refusals, "A would be dropped unasked"
    kept = "node A { k: String @key }"
    assert plan(old, f'{kept} node B {{ k: String @key  b: String? @rename_from("a") }}', drop_data=True).refusals
    assert not plan(old, f'{kept} node B @rename_from("A") {b}').refusals, "a stale rename of what stays is none"
