"""Schemas that make sense, and everything that can be wrong with one that does not."""

from __future__ import annotations

import pytest

from quire.errors import InvalidSchema
from quire.graph.catalog import Annotation, Check, Range
from quire.graph.names import LANCE
from quire.graph.schema.resolve import catalog


def wrong(text: str) -> list[str]:
    with pytest.raises(InvalidSchema) as caught:
        catalog(text)
    return [f"{p['message']} {p['next']}" for p in caught.value.problems]


# -- what a schema means ----------------------------------------------------------------------------------------------


def test_annotations_of_a_property_mean_the_same_as_rules_with_that_property() -> None:
    short = catalog("node A { a: String @key b: I32 @unique c: I32 @index }")
    long = catalog("node A { a: String b: I32 c: I32 @index(c) @unique(b) @key(a) @unique(b) }")
    assert short.entities == long.entities
    assert short.node("A").defined.key == ("a",)
    assert short.node("A").defined.unique == (("b",),)
    assert short.node("A").defined.index == (("c",),)


def test_rules_are_kept_in_the_definition() -> None:
    found = catalog(
        'node A { a: String @key b: F64? @range(b, -1..2.5) @check(a, "[a-z]+") }'
        "edge E: A -> A @card(1..3) { w: I32 @unique(src, dst) @unique(w, src) @index(dst) }"
    )
    assert found.node("A").defined.ranges == (Range("b", -1, 2.5),)
    assert found.node("A").defined.checks == (Check("a", "[a-z]+"),)
    edge = found.edge("E")
    assert (edge.defined.at_least, edge.defined.at_most) == (1, 3)
    assert edge.defined.unique == (("src", "dst"), ("w", "src"))
    assert (found.source(edge).name, found.target(edge).name) == ("A", "A")


def test_unknown_annotations_are_kept_and_renames_are_not() -> None:
    found = catalog('node A @rename_from("Z") @color("red") { a: String @rename_from("z") @unit(kg, exact=true) }')
    assert found.node("A").defined.annotations == (Annotation("color", "red"),)
    assert found.node("A").property("a").annotations == (Annotation("unit", "kg", {"exact": True}),)


def test_a_node_has_the_properties_and_the_rules_of_its_interfaces() -> None:
    found = catalog(
        "interface Named { name: String @key @note(1) } interface Aged { age: I32? @index }"
        "node P implements Named, Aged { x: Bool } node Q implements Named { name: String y: Bool }"
    )
    p, q = found.node("P"), found.node("Q")
    assert list(p.properties) == ["name", "age", "x"]
    assert (p.defined.key, p.defined.index, p.defined.implements) == (("name",), (("age",),), ("Named", "Aged"))
    assert p.property("name").annotations == (Annotation("note", 1),)
    assert (q.defined.key, q.property("name").annotations) == (("name",), ())
    assert [e.name for e in found.implementing("Named")] == ["P", "Q"]


def test_properties_named_like_the_system_are_stored_apart() -> None:
    found = catalog("node A { id: I64 src: String } edge E: A -> A { src: I32 @range(src, 0..) }")
    assert [p.column for p in found.node("A").defined.properties] == ["property:id", "property:src"]
    assert found.edge("E").schema().names == ["id", "src", "dst", "property:src"]


def test_a_vector_is_embedded_from_a_text() -> None:
    found = catalog('node A { text: String v: Vector(4)? @embed("text", model="m") @metric("dot") @index }')
    assert found.node("A").property("v").annotation("embed") == Annotation("embed", "text", {"model": "m"})


@pytest.mark.parametrize(
    ("kind", "value"),
    [("I32", "5"), ("F64", "1"), ("Bool", "false"), ("Date", '"2024-02-29"'), ("enum(a, b)", "b"), ("String", '""')],
)
def test_a_default_is_a_value_of_the_type(kind: str, value: str) -> None:
    assert catalog(f"node A {{ p: {kind} @default({value}) }}").node("A").property("p").annotation("default")


# -- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("node A {} node A {}", "A is declared twice; first in line 1."),
        ("node A {} edge A: A -> A", "A is declared twice"),
        ("node A {} interface A {}", "A is declared twice"),
        ("node A {} edge Knows: A -> A edge KNOWS: A -> A", "Edges Knows and KNOWS differ in case alone"),
        (f"node {'A' * 129} {{}}", "129 letters. Use at most 128."),
        (f"node A {{ {'a' * 129}: I32 }}", "129 letters. Use at most 128."),
        ("node A { a: I32 a: I64 }", "A has two properties 'a'; first in line 1."),
        ("node A { a: enum(x, y, x) }", "the enum has 'x' twice"),
        ("node Person {} edge E: Person -> Persn", "there is no node type 'Persn'. Did you mean 'Person'?"),
        ("node A {} interface I {} edge E: I -> A", "no node type 'I'. An edge leads from node type to node type."),
        ("node A {} edge E: A -> A edge F: E -> A", "no node type 'E'. An edge leads from node type to node type."),
        (
            "interface Named {} node A implements Nmed {}",
            "implements 'Nmed', which is not an interface. Did you mean 'Named'",
        ),
        ("node A { name: I32 @unique(nam) }", "@unique on A: there is no property 'nam'. Did you mean 'name'?"),
        ("node A { a: I32 @index(a, a) }", "@index on A names 'a' twice"),
        ("node A { a: I32 @unique(src) }", "there is no property 'src'"),
        ("node A { a: I32? @key }", "A.a is part of the key and cannot be optional. Take the ? from its type."),
        ("node A { a: Blob @key }", "A.a is Blob, which cannot be a key"),
        ("node A { a: [I32] @key }", "A.a is [I32], which cannot be a key"),
        ("node A { a: Vector(2) @key }", "A.a is Vector(2), which cannot be a key"),
        ("node A { a: I32 @key b: I32 @key }", "A has two keys. Write one: @key(a, b)."),
        ("node A {} edge E: A -> A { a: I32 @key }", "E is an edge type; only node types have a @key."),
        ("node A {} edge E: A -> A { @key(src, dst) }", "Write @unique(src, dst) instead."),
        ("node A { a: [I32] @unique }", "A.a is [I32], which cannot be unique"),
        ("node A { a: Blob @index }", "A.a is Blob, which cannot be indexed."),
        ("node A { a: Vector(2) b: I32 @index(a, b) }", "cannot be indexed with others"),
        ("node A { a: String @range(a, 0..1) }", "A.a is String; @range is for numbers only"),
        ("node A { a: Date @range(a, 0..1) }", "A.a is Date; @range is for numbers only"),
        ("node A { a: I32 @range(a, 0.5..1) }", "its range must have whole numbers as ends"),
        ("node A { a: I32 @range(a, 5..1) }", "ends before it begins. Write 1..5."),
        ("node A { a: U32 @range(a, ..-1) }", "No U32 is in the range of A.a"),
        ("node A { a: I32 @range(a, 0..) @range(a, ..5) }", "A.a has two ranges"),
        ('node A { a: I32 @check(a, "x") }', "A.a is I32; @check is for String only"),
        ('node A { a: String @check(a, "(") }', "is not a valid regular expression: missing ): ("),
        ('node A { a: String @check(a, "(?=x)") }', "no look-around"),
        ('node A { a: String @check(a, "x)|(y") }', "is not a valid regular expression"),
        ("node A {} edge E: A -> A @card(3..1)", "@card(3..1) on E allows nothing"),
        ("node A {} edge E: A -> A @card(0..0)", "@card(0..0) on E allows nothing"),
        ("node A {} edge E: A -> A @card(-1..1)", "The bounds of @card on E must be counts"),
        ("node A {} edge E: A -> A @card(0..1) @card(0..2)", "E has two cardinalities"),
        ("node A @card {}", "@card on A needs its bounds"),
        ("node A @key { a: I32 }", "@key on A does not say which property it is about"),
        ("node A { a: I32 @range }", "@range is a rule of the type. Write it on a line of its own: @range(a, …)."),
        ('node A { a: I32 @embed("b") b: String }', "A.a is I32; @embed makes a Vector"),
        ('node A { a: Vector(2) @embed("txt") text: String }', "there is no 'txt'. Did you mean 'text'?"),
        ('node A { a: Vector(2) @embed("b") b: I32 }', "A.b is I32, not String"),
        ('node A { a: Vector(2) @embed("b", modl="x") b: String }', "not modl='x'. Did you mean 'model'?"),
        ('node A { a: Vector(2) @embed("b") @embed("b") b: String }', "A.a has @embed twice"),
        ('node A { a: Vector(2) @metric("cosin") }', "There is no metric 'cosin'. Did you mean 'cosine'?"),
        ('node A { a: I32 @metric("l2") }', "@metric is for vectors"),
        ('node A { a: I32 @default("x") }', "The default of A.a does not fit"),
        ("node A { a: [I32] @default(1) }", "A.a is [I32], which has no default"),
        ("node A { a: I32 @default }", "@default takes one value"),
        ("node A { a: I32 @default(5) @range(a, 0..1) }", "The default of A.a breaks its range"),
        ('node A { a: String @default("x") @check(a, "y") }', "The default of A.a breaks its check"),
        ("node A {} edge E: A -> A { from: I32 }", "'from' names an end of the edge"),
        ("node A {} edge E: A -> A { src: I32 @unique }", "is about the end of the edge, not about the property"),
        ('node A @rename_from("A") {}', "A cannot be renamed from itself"),
        ("node A @rename_from(1) {}", "@rename_from takes the old name"),
        ('node A @rename_from("Z") {} node B @rename_from("Z") {}', "A and B are both renamed from Z"),
        ('node A { a: I32 @rename_from("z") b: I32 @rename_from("z") }', "a and b are both renamed from z"),
        (
            "interface I { a: I32 } node A implements I { a: I64 }",
            "A.a is I64, but I declares it as I32. Use the interface's type",
        ),
        (
            "interface I { a: I32 } interface J { a: I32? } node A implements I, J {}",
            "A cannot implement both I and J: a is I32 in the one and I32? in the other.",
        ),
    ],
)
def test_what_makes_no_sense_is_said(text: str, said: str) -> None:
    assert any(said in problem for problem in wrong(text)), wrong(text)


@pytest.mark.parametrize("name", [*LANCE, "_distance", "_score"])
def test_columns_of_lance_are_no_names_of_properties(name: str) -> None:
    assert wrong(f"node A {{ {name}: I32 }}") == [
        f"A.{name} has a name that Lance reserves for its own columns. Choose another name."
    ]


def test_everything_that_is_wrong_is_told_at_once_and_in_order() -> None:
    with pytest.raises(InvalidSchema) as caught:
        catalog("node A {\n  a: I32? @key\n}\nedge E: A -> B\n", file="x.pg")
    error = caught.value
    assert [(p["line"], p["column"]) for p in error.problems] == [(2, 11), (4, 14)]
    assert str(error).startswith("x.pg:2:11: A.a is part of the key and cannot be optional.")
    assert "(1 more in `problems`.)" in str(error)
    assert (error.line, error.column, error.type, error.property, error.rule) == (2, 11, "A", "a", "key")
