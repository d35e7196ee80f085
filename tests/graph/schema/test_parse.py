"""The grammar of `.pg`: every construct, and what is said about a text that is none."""

from __future__ import annotations

import pytest

from quire.errors import InvalidSchema
from quire.graph.catalog import Annotation
from quire.graph.schema.ast import DeclaredType, Position
from quire.graph.schema.parse import parse
from quire.graph.types import SCALARS, Type


def node(body: str) -> DeclaredType:
    [found] = parse(f"node A {{ {body} }}").nodes
    return found


def kind(text: str) -> Type:
    [prop] = node(f"p: {text}").properties
    return prop.type


# -- declarations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " \n\t", "// nothing", "/* nothing\n at ** all */"])
def test_an_empty_schema_declares_nothing(text: str) -> None:
    found = parse(text)
    assert (found.interfaces, found.nodes, found.edges) == ((), (), ())


def test_declarations_may_stand_in_any_order_and_know_their_place() -> None:
    found = parse("edge E: A -> B\n  node B {}\ninterface I { x: I32 } node A implements I {}")
    assert [n.name for n in found.nodes] == ["B", "A"]
    assert [(i.name, i.at) for i in found.interfaces] == [("I", Position(3, 11))]
    [edge] = found.edges
    assert edge.source is not None
    assert edge.target is not None
    assert (edge.source.name, edge.target.name, edge.target.at) == ("A", "B", Position(1, 14))
    assert found.nodes[0].at == Position(2, 8)


def test_comments_may_stand_anywhere() -> None:
    text = "// a\nnode /* b */ A { // c\n x: /* { */ I32 // }\n /* @key(y) */ }\n/**/"
    assert [p.name for p in parse(text).nodes[0].properties] == ["x"]


def test_a_node_implements_several_interfaces_with_annotations_before_and_after() -> None:
    [found] = parse('node A @one implements I, J @two("x") {}').nodes
    assert [n.name for n in found.implements] == ["I", "J"]
    assert [n.name for n in found.notes] == ["one", "two"]


def test_words_of_the_language_may_name_properties() -> None:
    names = ["node", "edge", "interface", "enum", "implements", "true", "false", "src", "_x", "x_1Y"]
    assert [p.name for p in node(" ".join(f"{n}: I32" for n in names)).properties] == names


@pytest.mark.parametrize(
    ("text", "bounds"), [("@card(0..1)", (0, 1)), ("@card(1..)", (1, None)), ("@card ( 2 .. 3 )", (2, 3))]
)
def test_a_cardinality_has_one_bound_or_two(text: str, bounds: tuple[int, int | None]) -> None:
    for head in (f"{text} @x", f"@x {text}"):
        [found] = parse(f"edge E: A -> B {head}").edges
        [card] = found.cards
        assert (card.at_least, card.at_most) == bounds
        assert [n.name for n in found.notes] == ["x"]


# -- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", SCALARS)
def test_every_scalar_is_required_or_optional_and_all_but_blobs_make_lists(base: str) -> None:
    assert kind(base) == Type(base)
    assert kind(f"{base}?") == Type(base, optional=True)
    if base != "Blob":
        assert kind(f"[{base}]") == Type(base, many=True)
        assert kind(f"[ {base} ] ?") == Type(base, many=True, optional=True)


def test_enums_and_vectors_are_types() -> None:
    assert kind("enum(a, B-2, 3_c)") == Type("enum", values=("a", "B-2", "3_c"))
    assert kind("enum(node)?") == Type("enum", values=("node",), optional=True)
    assert kind("Vector(128)?") == Type("Vector", size=128, optional=True)


# -- annotations and rules --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@a", Annotation("a")),
        ('@a("x y")', Annotation("a", "x y")),
        ("@a(word)", Annotation("a", "word")),
        ("@a(true)", Annotation("a", True)),
        ("@a(false, b=true)", Annotation("a", False, {"b": True})),
        ("@a(-3)", Annotation("a", -3)),
        ("@a(2.5)", Annotation("a", 2.5)),
        ("@a(1e3)", Annotation("a", 1000.0)),
        ('@embed("bio", model="m/x")', Annotation("embed", "bio", {"model": "m/x"})),
        ('@a(k="v", n=1)', Annotation("a", None, {"k": "v", "n": 1})),
        (r'@a("\" \\ \n \t \r \u00e9 \ud83d\ude00")', Annotation("a", '" \\ \n \t \r é 😀')),
        ('@a("two\nlines")', Annotation("a", "two\nlines")),
        ("@keyed(x)", Annotation("keyed", "x")),
    ],
)
def test_annotations_take_a_value_and_named_values(text: str, expected: Annotation) -> None:
    [prop] = node(f"p: String {text}").properties
    assert [n.annotation for n in prop.notes] == [expected]


def test_a_parenthesis_tells_a_rule_of_the_type_from_an_annotation_of_the_property() -> None:
    found = node("a: String @key @x\n @unique(a, b)\n b: I32 @unique @index\n @index(b) @key (a)")
    assert [[n.name for n in p.notes] for p in found.properties] == [["key", "x"], ["unique", "index"]]
    assert [(c.kind, [n.name for n in c.names]) for c in found.constraints] == [
        ("unique", ["a", "b"]),
        ("index", ["b"]),
        ("key", ["a"]),
    ]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("0..150", 0, 150),
        ("-5..-1", -5, -1),
        ("0..", 0, None),
        ("..10", None, 10),
        ("0.5..1.5", 0.5, 1.5),
        ("-0.5 .. 1", -0.5, 1),
        ("..1e300", None, 1e300),
        ("..18446744073709551615", None, 2**64 - 1),
    ],
)
def test_ranges_are_open_or_negative_whole_or_not(text: str, low: float | None, high: float | None) -> None:
    [rule] = node(f"p: F64 @range(p, {text})").constraints
    assert (rule.low, rule.high) == (low, high)
    assert [type(b) for b in (rule.low, rule.high)] == [type(b) for b in (low, high)]


def test_a_check_holds_a_pattern_and_ends_may_be_written_with_a_sign() -> None:
    [rule] = node(r'p: String @check(p, "\\d+\"")').constraints
    assert rule.pattern == '\\d+"'
    [edge] = parse("edge E: A -> A { @unique(@src, dst) }").edges
    assert [n.name for n in edge.constraints[0].names] == ["src", "dst"]


# -- what is no schema ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "message", "advice"),
    [
        ("nod A {}", (1, 1), "Expected 'interface', 'node', 'edge' or the end of the text, but found 'nod'.", "'node'"),
        ("node a {}", (1, 6), "Expected a name that starts with a capital, but found 'a'.", "A."),
        ("node A {\n x: string }", (2, 5), "Expected a type, but found 'string'.", "'String'"),
        ("node A { x: Strng }", (1, 13), "There is no type 'Strng'.", "'String'"),
        ("node A { x: [Strng] }", (1, 14), "There is no type 'Strng'.", "'String'"),
        ("node A { x String }", (1, 12), "Expected ':', but found 'String'.", "name: String"),
        ("node A { x: I32, y: I32 }", (1, 16), "but found ','.", "not separated by commas"),
        ("node A { X: I32 }", (1, 10), "but found 'X'.", "small letter: x"),
        ("node A implement B {}", (1, 8), "but found 'implement'.", "'implements'"),
        ("node A { x: enum() }", (1, 18), "Expected a value", "enum(draft, sent)"),
        ("node A { x: Vector(0) }", (1, 20), "between 1 and 65536 dimensions, not 0", "Vector(128)"),
        ("node A { x: Vektor(3) }", (1, 13), "'Vektor' takes nothing in parentheses", "'Vector'"),
        ("node A { x: [Blob] }", (1, 14), "no lists of Blob", "node of its own"),
        ("node A { x: I32", (1, 16), "but found the end of the text.", ""),
        ("node A { @range(x, ..) }", (1, 10), "at least one end", "0..150"),
        ("node A { @key() }", (1, 15), "but found ')'.", "@unique(name, city)"),
        ("edge E: A B", (1, 11), "Expected '->', but found 'B'.", "Person -> Company"),
        ("edge E: A -> B @card(0..x)", (1, 25), "Expected a whole number or ')', but found 'x'.", ""),
        ('node A { x: String @check(x, "\\d") }', (1, 30), "Invalid escape \\d", "\\\\d"),
        ('node A { @check(x, "abc }', (1, 20), "This text does not end.", "double quote"),
        ("node A {} /* x", (1, 11), "This comment does not end.", "*/"),
        ("node A @x(1, 2) {}", (1, 14), "one value without a name", "model="),
        ("node A @x(a=1, a=2) {}", (1, 16), "given 'a' twice", ""),
        ("node A @x(99999999999999999999) {}", (1, 11), "No property can hold", ""),
        ("node A @x(1e999) {}", (1, 11), "No property can hold", ""),
        ('node A @x("\\ud800") {}', (1, 11), "not valid Unicode", ""),
        ("interface I { x: I32 @key(x) }", (1, 22), "but found '@'", ""),
        ("node A { é: I32 }", (1, 10), "but found 'é'", ""),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place_and_what_was_expected(
    text: str, place: tuple[int, int], message: str, advice: str
) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse(text, file="people.pg")
    error = caught.value
    assert (error.file, error.line, error.column) == ("people.pg", *place)
    assert error.message.startswith(f"people.pg:{place[0]}:{place[1]}: ")
    assert message in error.message
    assert advice in (error.next or "")


def test_a_text_without_a_file_is_told_by_line_and_column() -> None:
    with pytest.raises(InvalidSchema, match="^Line 1, column 1: "):
        parse("x")
    with pytest.raises(InvalidSchema, match="A schema is text, not a bytes"):
        parse(b"node A {}")  # type: ignore[arg-type]
