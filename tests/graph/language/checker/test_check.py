"""The type checker: what queries mean, and what is refused, with the place and the reason."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from tests.budget import budget
from tests.graph.language.graphs import GRAPH, query, read, write
from tests.graph.language.trees import queries

from quire.errors import InvalidQuery
from quire.graph.language import ast, bind, check, evaluate, plan
from quire.graph.types import Type


def expand(match: str) -> plan.Expand:
    [found] = read(match, "count(*) as n").block.expansions
    return found


# -- patterns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "ends", "direction"),
    [
        ("$p: Person $p worksAt $c", ("p", "c"), "forward"),
        ("$c: Company $c worksAt $p", ("c", "p"), "backward"),
        ("$c worksAt $p $p: Person", ("c", "p"), "backward"),
        ("$a WORKSAT_ $b", None, ""),
        ("$a worksat $b", ("a", "b"), "forward"),
        ("$a knows $b", ("a", "b"), "forward"),
        ("$a <knows> $b", ("a", "b"), "either"),
    ],
)
def test_the_direction_follows_from_the_types_of_the_ends(
    match: str, ends: tuple[str, str] | None, direction: str
) -> None:
    if ends is None:
        with pytest.raises(InvalidQuery):
            expand(match)
        return
    found = expand(match)
    assert (found.source, found.target, found.direction) == (*ends, direction)


def test_types_spread_through_a_chain_in_any_order_of_clauses() -> None:
    first = read("$c worksAt $p  $p knows $q  $q wrote $d  $c: Company").block
    second = read("$c: Company  $q wrote $d  $p knows $q  $c worksAt $p").block
    kinds = {s.variable: s.entity.name for s in first.scans}
    assert kinds == {"c": "Company", "p": "Person", "q": "Person", "d": "Doc"}
    assert kinds == {s.variable: s.entity.name for s in second.scans}


def test_anonymous_variables_are_all_different() -> None:
    block = read("$p knows $_  $p knows $_").block
    assert len({s.variable for s in block.scans}) == 3


def test_an_edge_binding_gives_its_properties() -> None:
    body = read("$p $e:knows $f", "$e.since, $e.src, $e.id as eid")
    assert body.block.expansions[0].bound
    assert [o.type for o in body.outputs] == [Type("Date", optional=True), plan.STRING, plan.STRING]
    assert [p.name for p in body.needs["e"].properties] == ["since"]


def test_edge_filters_belong_to_the_edge() -> None:
    [found] = read('$p knows{1,3} [since >= date("2020-01-01")] $f').block.expansions
    [only] = found.filters
    assert isinstance(only, plan.Compare)
    assert isinstance(only.left, plan.Field)
    assert only.left.variable == found.edge
    assert (found.least, found.most, found.bound) == (1, 3, False)


def test_not_shares_variables_and_hides_its_own() -> None:
    [condition] = read("$p: Person not { $p worksAt $c $c.size > 3 }").block.conditions
    assert isinstance(condition, plan.Without)
    assert condition.shared == ("p",)
    assert [s.entity.name for s in condition.block.scans] == ["Company"]


def test_names_of_separate_blocks_are_apart() -> None:
    first, second = read("$p: Person not { $p worksAt $x } not { $p wrote $x }").block.conditions
    assert isinstance(first, plan.Without)
    assert isinstance(second, plan.Without)
    assert first.block.variables != second.block.variables


def test_a_node_of_every_alternative_belongs_outside() -> None:
    body = read("$p: Person or { $p knows $f { $f knows $p $f worksAt $c } }", "$f.name")
    assert [s.variable for s in body.block.scans] == ["p", "f"]
    [either] = body.block.conditions
    assert isinstance(either, plan.Either)
    assert set(either.shared) == {"p", "f"}
    assert [len(b.scans) for b in either.blocks] == [0, 1]


def test_optional_makes_types_optional_and_conditions_late() -> None:
    body = read("$p: Person optional { $p worksAt $c } $c is null $p.age > 3", "$p.name, $c.name")
    assert body.outputs[1].type == Type("String", optional=True)
    assert [type(c) for c in body.block.after] == [plan.IsNull]
    assert [type(c) for c in body.block.conditions] == [plan.Compare]
    assert body.block.optional[0].shared == ("p",)
    assert [t.variable for t in body.ties if isinstance(t, plan.System)] == ["p", "c"]


def test_a_later_optional_sees_an_earlier_one() -> None:
    body = read("$p: Person optional { $p knows $f } optional { $f worksAt $c }", "$c.name")
    assert body.block.optional[1].shared == ("f",)


def test_a_shortest_path_has_a_length_and_nodes() -> None:
    body = read("$a: Person $b: Person $x = shortest($a <knows>{1,6} $b)", "$x.length, $x.nodes")
    assert [o.type for o in body.outputs] == [plan.I64, plan.IDS]
    [path] = body.block.paths
    assert (path.path, path.step.source, path.step.most) == ("x", "a", 6)


def test_contains_is_a_traversal_where_an_edge_is_called_so() -> None:
    assert expand("$a contains $b").entity.name == "Contains"


def test_entities_are_compared_by_id() -> None:
    [condition] = read("$p knows $f $p != $f").block.conditions
    assert condition == plan.Compare("!=", plan.System("p", "id"), plan.System("f", "id"))


# -- results ----------------------------------------------------------------------------------------------------------


def test_results_are_called_as_they_are_written() -> None:
    body = read("$p knows $f", "$p.name, $f, count(distinct $p.age), $f.age + 1 as more")
    assert [o.name for o in body.outputs] == ["p.name", "f", "count(distinct p.age)", "more"]


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("count($p)", "I64"),
        ("sum($p.age)", "I64?"),
        ("sum($p.score)", "F64?"),
        ("avg($p.age)", "F64?"),
        ("max($p.born)", "Date?"),
        ("min($p.name)", "String?"),
        ("$p.age / 2", "F64?"),
        ("$p.age % 2", "I64?"),
        ("1 + 2", "I64"),
        ("-$p.score", "F64?"),
        ("now()", "DateTime"),
        ("[1, 2.5]", "[F64]"),
        ("$p.vec", "Vector(3)?"),
        ("$p.id", "String"),
        ('bm25($p.bio, "x")', "F64?"),
        ('search($p.name, "x")', "Bool"),
    ],
)
def test_expressions_have_types(expression: str, kind: str) -> None:
    assert str(read("$p: Person", f"{expression} as x").outputs[0].type) == kind


def test_other_projections_make_the_groups() -> None:
    body = read("$p knows $f", "$p.name, count($f) as n", "having { n > 1 } order { n desc, sum($f.age) }")
    assert body.aggregated
    assert [o.key for o in body.outputs] == [True, False]
    assert isinstance(body.order[0].expression, plan.Output)
    assert isinstance(body.order[1].expression, plan.Aggregate)
    assert body.ties == (plan.Output(0, plan.STRING),)


def test_ordering_by_an_aggregate_groups_too() -> None:
    assert read("$p knows $f", "$p.name", "order { count($f) }").aggregated


def test_scores_come_best_first_unless_said_otherwise() -> None:
    for score, descending in [
        ('bm25($p.bio, "x")', True),
        ('bm25($p.bio, "x") asc', False),
        ("nearest($p.vec, [1, 2, 3])", False),
        ('rrf(nearest($p.vec, [1, 2, 3]), bm25($p.bio, "x"))', True),
    ]:
        [order] = read("$p: Person", "$p.name", f"order {{ {score} }} limit 3").order
        assert order.descending is descending


def test_a_text_query_of_nearest_needs_an_embedding() -> None:
    [order] = read("$d: Doc", "$d.title", "order { nearest($d.emb, $q) } limit 3", "$q: String").order
    assert isinstance(order.expression, plan.Nearest)
    with pytest.raises(InvalidQuery, match="not made from text"):
        read("$p: Person", "$p.name", "order { nearest($p.vec, $q) } limit 3", "$q: String")


def test_needs_name_the_columns_that_are_read() -> None:
    body = read("$p: Person { age: 3 } $p knows $f", "$f, $p.bio", "order { $p.score }")
    assert [p.name for p in body.needs["p"].properties] == ["age", "bio", "score"]
    assert "photo" not in [p.name for p in body.needs["f"].properties]
    assert "vec" in [p.name for p in body.needs["f"].properties]


# -- mistakes in reads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "returned", "rest", "said"),
    [
        ("$p: Persn", "$p", "", "Did you mean 'Person'?"),
        ("$p: Named", "$p.age", "", "Named has no property 'age'"),
        ("$p: Knows", "$p", "", "$a $p:knows $b"),
        ("$p: Person $p: Company", "$p.name", "", "is Person already"),
        ("$p: Person $p knws $f", "$p.name", "", "Did you mean 'knows'?"),
        ("$p: Doc $p knows $f", "$p.title", "", "$p is Doc"),
        ("$p <worksAt> $c", "$p.name", "", "goes in both directions"),
        ("$p $e:knows{1,2} $f", "$p.name", "", "binds one edge"),
        ("$p $p:knows $f", "$p.name", "", "is a node already"),
        ("$p: Person { nme: 3 }", "$p.name", "", "Did you mean 'name'?"),
        ("$p: Person", "$p.nme", "", "Did you mean 'name'?"),
        ("$p: Person", "$q.name", "", "neither bound nor a parameter"),
        ("$person: Person", "$persn.name", "", "Did you mean $person?"),
        ("$p: Person", "$_", "", "is a different variable"),
        ("$p: Person $p.photo is null", "$p.name", "", "Blob"),
        ("$p: Person", "$p.photo", "", "Blob"),
        ("$p: Person $p.vec = $p.vec", "$p.name", "", "cannot be compared"),
        ("$p: Person", "$p.name", "order { $p.vec }", "vector"),
        ("$p: Person $p.age = name", "$p.name", "", "unknown name"),
        ("$p: Person $p.age = null", "$p.name", "", "is null"),
        ('$p: Person $p.age = "3"', "$p.name", "", "I32 cannot be compared with String"),
        ('$p: Person $p.born > "2020-01-01"', "$p.name", "", 'date("2020-01-01")'),
        ('$p: Person { status: "opn" }', "$p.name", "", "Did you mean 'open'?"),
        ('$p: Person $p.status in ["open", "x"]', "$p.name", "", "not one of the values"),
        ('$p: Person $p.status > "open"', "$p.name", "", "no order"),
        ("$p: Person $p.active < true", "$p.name", "", "no order"),
        ('$p: Person $p.tags = "x"', "$p.name", "", "contains or in"),
        ("$p: Person $p.tags contains 3", "$p.name", "", "String cannot be compared with I64"),
        ('$p: Person $p.age contains "x"', "$p.name", "", "needs a list or a text"),
        ('$p: Person $p.age starts_with "x"', "$p.name", "", "needs a text"),
        ("$p: Person $p.age in 3", "$p.name", "", "needs a list"),
        ('$p: Person $p.age in ["a"]', "$p.name", "", "the list is of String"),
        ('$p: Person $p.age in [1, "a"]', "$p.name", "", "one type"),
        ("$p: Person $p = 3", "$p.name", "", "cannot be compared with a value"),
        ("$p worksAt $c $p = $c", "$p.name", "", "never the same"),
        ("$p knows $f $p < $f", "$p.name", "", "no order"),
        ("$p: Person $p is null", "$p.name", "", "never null"),
        ("$p: Person count($p) > 1", "$p.name", "", "is not allowed here"),
        ("$p: Person", "sum(count($p))", "", "inside another aggregate"),
        ("$p: Person", "$p.bio as b, count($p) as n, sum(n) as s", "", "inside another aggregate"),
        ("$p: Person", "$p.bio as b, count($p) as n", "having { max(n) > 3 }", "inside another aggregate"),
        ("$p: Person", "$p.bio as b, count($p) + 1 as n", "order { max(n) }", "inside another aggregate"),
        ("$p: Person", "sum($p.name)", "", "needs numbers"),
        ("$p: Person", "max($p)", "", "not a node or an edge"),
        ("$p: Person", "$p.name + 1", "", "needs numbers"),
        ("$p: Person", "$p.name, $p.name", "", "two results"),
        ("$p: Person", "$p.name", "order { nme }", "there is no result nme"),
        ("$p: Person", "$p.name as who", "order { wo }", "Did you mean 'who'?"),
        ("$p: Person", "count($p) as n, $p.age + count($p) as m", "", "single rows"),
        ("$p: Person", "count($p) as n", "order { $p.age }", "grouped by then"),
        ("$p: Person", "$p.name", "order { nearest($p.vec, [1, 2, 3]) }", "needs a limit"),
        ("$p: Person", "nearest($p.vec, [1, 2, 3]) as d", "order { d }", "needs a limit"),
        ("$p: Person", "nearest($p.vec, [1, 2]) as d", "", "3 dimensions, not 2"),
        ("$p: Person", "nearest($p.name, [1, 2]) as d", "", "a vector property"),
        ('$p: Person search($p.age, "x")', "$p.name", "", "a String property"),
        ("$p: Person search($p.name, 3)", "$p.name", "", "for a text"),
        ('$p: Person fuzzy($p.name, "x", -1)', "$p.name", "", "number of edits"),
        ("$p: Person", 'rrf(bm25($p.bio, "x"), 3) as r', "", "two rankings"),
        ('$p: Person rrf(bm25($p.bio, "x"), bm25($p.name, "x")) > 1', "$p.name", "", "ranks the rows"),
        ("$p: Person not { $p knows $f }", "$f.name", "", "bound inside not"),
        ("$p: Person or { $p knows $f $p.age = 1 }", "$f.name", "", "in every alternative"),
        ("$p: Person not { optional { $p knows $f } }", "$p.name", "", "no effect"),
        ("$p: Person $x = shortest($p knows $f)", "$p.name", "", "is not"),
        ("$p: Person $f: Person $x = shortest($p knows $f)", "$x", "", ".length"),
        ("$p: Person $f: Person $x = shortest($p knows $f)", "$x.size", "", "It has $x.length"),
        ("$p: Person optional { $p knows $f } $x = shortest($p knows $f)", "$p.name", "", "may be null"),
        ("$p knows $f $x = shortest($p knows $f) $y = shortest($p knows $x)", "$p.name", "", "$x is a path"),
        ("$p $e:knows $f $x = shortest($p knows $e)", "$p.name", "", "$e is an edge"),
        ("$p: Person", "$p.name", "having { $p is null }", "never null"),
        ("$p: Person optional { $p knows $f }", "$p.name", "having { $f is null }", "Return it too"),
        ("$p: Person or { $p $e:knows $f $p $e:knows $f }", "$e.since", "", "outside of it"),
        ("$p: Person", "$p.name", "limit 9223372036854775808", "too large"),
        ("$p: Person", "$p.name", "limit $n", "no parameter $n"),
        ("$p knows [since > $p.born] $f", "$p.name", "", "no parameter"),
        ("$p knows [snce is null] $f", "$p.name", "", "Did you mean 'since'?"),
        ("$p: Person", "[] as x", "", "type of an empty list is unknown"),
    ],
)
def test_a_mistake_is_refused_with_its_reason(match: str, returned: str, rest: str, said: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        read(match, returned, rest)
    assert said in str(caught.value)
    assert caught.value.line in (2, 3, 4)
    assert caught.value.query == "q"


def test_the_place_of_a_mistake_is_exact() -> None:
    with pytest.raises(InvalidQuery) as caught:
        read("$p: Person\n  $p.age = 3\n  $p.nam = 3")
    assert (caught.value.line, caught.value.column) == (4, 3)


def test_bounds_on_an_edge_between_two_types_are_allowed() -> None:
    [step] = read("$p worksAt{1,3} $c").block.expansions
    assert (step.least, step.most) == (1, 3)


def test_a_list_of_numbers_of_several_types_keeps_each_exactly() -> None:
    [condition] = read("$p: Person $p.limit in [9007199254740993, 0.5]").block.conditions
    assert isinstance(condition, plan.In)
    assert condition.options == plan.ListOf(
        (plan.Constant(2**53 + 1, plan.I64), plan.Constant(0.5, plan.F64)), Type("F64", many=True)
    )


@pytest.mark.parametrize(
    ("match", "parameters", "said"),
    [
        ("$n: Person", "$n: String", "is a parameter"),
        ("$p: Person $p.name = $n.x", "$n: String", "has no properties"),
        ("$p: Person $p.age = $n", "$n: String", "I32 cannot be compared"),
        ("$p: Person $p.age in $n", "$n: [String]", "the list is of"),
    ],
)
def test_parameters_are_typed(match: str, parameters: str, said: str) -> None:
    with pytest.raises(InvalidQuery, match=said.replace("$", r"\$")):
        read(match, "1 as x", parameters=parameters)


def test_distinct_orders_only_by_results() -> None:
    query("match { $p: Person } return distinct { $p.name } order { $p.name }")
    with pytest.raises(InvalidQuery, match="made distinct"):
        query("match { $p: Person } return distinct { $p.name } order { $p.age }")


def test_a_tree_made_by_hand_can_be_checked() -> None:
    p = ast.Variable("p")
    body = ast.Read((ast.Bind(p, "Person"),), (ast.Projection(ast.Access(p, "name")),))
    assert check(ast.Query("q", (), body), GRAPH) == query("match { $p: Person } return { $p.name }")


# -- statements -------------------------------------------------------------------------------------------------------


def test_statements_are_resolved() -> None:
    insert, link, update, delete = write(
        """
        insert Person { name: $n, age: 3, born: "2020-01-01", seen: now(), vec: [1, 2, 3] }
        insert WorksAt { from: $n, to: "acme", role: "x" }
        update Person set { age: $a + 1 } where name = $n and age is not null
        delete WorksAt where from = $n
        """,
        "$n: String, $a: I64",
    )
    assert isinstance(insert, plan.Insert)
    assert {s.property.name: getattr(s.value, "value", None) for s in insert.assignments} == {
        "name": None,
        "age": 3,
        "born": dt.date(2020, 1, 1),
        "seen": None,
        "vec": [1.0, 2.0, 3.0],
    }
    assert isinstance(link, plan.Insert)
    assert link.target == plan.End((plan.Constant("acme", plan.STRING),), True)
    assert isinstance(update, plan.Update)
    assert len(update.where) == 2
    assert isinstance(delete, plan.Delete)
    assert delete.where == (plan.Compare("=", plan.System(plan.ROW, "src"), plan.Parameter("n", plan.STRING)),)


def test_ends_with_a_composite_key_take_its_values_or_the_id() -> None:
    [first] = write('insert Contains { from: ["a", 1], to: "[\\"a\\",\\"1\\"]" }')
    assert isinstance(first, plan.Insert)
    assert first.source == plan.End((plan.Constant("a", plan.STRING), plan.Constant(1, plan.I64)), False)
    assert first.target is not None
    assert first.target.is_id


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("insert Persn { name: 1 }", "Did you mean 'Person'?"),
        ("insert Named { title: 1 }", "interface"),
        ("insert Person { age: 1 }", "needs name"),
        ('insert Person { name: "x", agee: 1 }', "Did you mean 'age'?"),
        ('insert Person { name: "x", age: "y" }', "whole number"),
        ('insert Person { name: "x", age: $s }', "Declare the parameter as I32?"),
        ('insert Person { name: "x", status: "z" }', "one of open, closed"),
        ('insert Person { name: "x", id: "y" }', "made from its key"),
        ('insert Person { name: "x", age: age }', "unknown name"),
        ('insert Person { name: "x", age: $z }', "no parameter $z"),
        ('insert Person { name: "x", age: count(*) }', "is not allowed here"),
        ('insert Person { name: "x", born: now() }', "and this is DateTime"),
        ('insert WorksAt { from: "x", role: "r" }', "has no `to`"),
        ('insert WorksAt { from: "x", to: "y" }', "needs role"),
        ('insert WorksAt { from: 3, to: "y", role: "r" }', "must be text"),
        ('insert Contains { from: ["a"], to: "y" }', "the key of Pair is a, b"),
        ('insert Contains { from: 3, to: "y" }', "Give [a, b]"),
        ('update Person set { name: "y" } where age = 1', "part of the key"),
        ('update Knows set { from: "y" } where kind = "x"', "cannot be changed"),
        ("update Person set { } where age = 1", "sets no property"),
        ("update Person set { age: 1 } where agee = 1", "Did you mean 'age'?"),
        ('delete Person where search(bio, "x")', "is not allowed here"),
        ("delete Person where $p.age = 1", "no parameter $p"),
        ("delete Person where photo is null", "Blob"),
    ],
)
def test_a_bad_statement_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        write(text, "$s: String")
    assert said in str(caught.value)
    assert caught.value.line == 2


# -- parameters -------------------------------------------------------------------------------------------------------

BOUND = query(
    "match { $p: Person { name: $n } $p.born > $d $p.age in $l } return { $p.name } limit $k",
    "$n: String, $d: Date, $l: [I32], $k: I64?",
)


def test_parameter_values_are_converted() -> None:
    assert bind(BOUND, {"n": "x", "d": "2020-01-01", "l": [1, 2]}) == {
        "n": "x",
        "d": dt.date(2020, 1, 1),
        "l": [1, 2],
        "k": None,
    }


@pytest.mark.parametrize(
    ("values", "said", "parameter"),
    [
        ({"d": "2020-01-01", "l": []}, "n of the query q is missing", "n"),
        ({"n": None, "d": "2020-01-01", "l": []}, "is null", "n"),
        ({"n": 3, "d": "2020-01-01", "l": []}, "must be text, not 3", "n"),
        ({"n": "x", "d": "soon", "l": []}, "must be a date", "d"),
        ({"n": "x", "d": "2020-01-01", "l": [1.5]}, "whole number", "l"),
        ({"n": "x", "d": "2020-01-01", "l": [], "kk": 1}, "Did you mean 'k'?", "kk"),
        ({"n": "x", "d": "2020-01-01", "l": [], "k": -1}, "cannot be -1", "k"),
    ],
)
def test_wrong_parameter_values_are_named(values: dict[str, object], said: str, parameter: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        bind(BOUND, values)
    assert said in str(caught.value)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("text", "value"),
    [("$a + 2 * 3", 7), ("7 / 2", 3.5), ("-7 % 3", -1), ("-$a", -1), ("$b + 1", None), ("7 % 2.5", 2.0)],
)
def test_values_without_rows_are_computed(text: str, value: object) -> None:
    [statement] = write(f'insert Person {{ name: "x", score: {text} }}', "$a: I64, $b: F64?")
    assert isinstance(statement, plan.Insert)
    found = evaluate(statement.assignments[1].value, {"a": 1, "b": None}, dt.datetime.now(dt.UTC))
    assert found == value


@pytest.mark.parametrize("text", ["1 / ($a - 1)", "5 % ($a - 1)", "9223372036854775807 + $a", "$a * 1e308 * 10.0"])
def test_what_cannot_be_computed_is_an_error(text: str) -> None:
    [statement] = write(f'insert Person {{ name: "x", score: {text} }}', "$a: I64")
    assert isinstance(statement, plan.Insert)
    with pytest.raises(InvalidQuery):
        evaluate(statement.assignments[1].value, {"a": 1}, dt.datetime.now(dt.UTC))


def test_projections_need_no_commas() -> None:
    body = read("$p: Person $p knows $f", "$p.name count($f) as friends", "order { friends desc } limit 20")
    assert [o.name for o in body.outputs] == ["p.name", "friends"]


KNOWN = queries(
    names=["name", "age", "born", "tags", "status", "score", "bio", "vec"],
    types=["Person"],
    edges=["knows"],
    variables=["p", "f", "k", "l"],
)


@settings(max_examples=budget(40, full=300), deadline=None)
@given(KNOWN)
def test_any_tree_is_checked_or_refused(given: ast.Query) -> None:
    try:
        found = check(given, GRAPH)
    except InvalidQuery:
        return
    scanned = {s.variable for s in found.body.block.scans} if isinstance(found.body, plan.Read) else set()
    assert scanned <= (found.body.needs.keys() if isinstance(found.body, plan.Read) else set())


@pytest.mark.parametrize(
    ("returned", "wanted"),
    [
        ("count($p) as n", []),
        ("$p.age, count(distinct $p) as n", ["age"]),
        ("$p as all_of_it", [n for n, p in GRAPH.node("Person").properties.items() if p.type.base != "Blob"]),
    ],
)
def test_an_entity_that_is_counted_is_but_its_id(returned: str, wanted: list[str]) -> None:
    assert [prop.name for prop in read("$p: Person", returned).needs["p"].properties] == wanted


def test_an_alias_of_a_whole_entity_is_named_as_it_is_written() -> None:
    with pytest.raises(InvalidQuery) as caught:
        read("$p: Person", "$p as somebody", "order { somebody }")
    assert caught.value.message.endswith("somebody is a node, not a value.")
    with pytest.raises(InvalidQuery) as caught:
        read("$p: Person", "$p as somebody", "having { somebody > 3 }")
    assert caught.value.message.endswith("somebody is a node or an edge and cannot be compared with a value.")


def test_a_walk_of_no_hops_stays_within_one_type() -> None:
    assert (expand("$a knows{0,2} $b").least, expand("$a knows{0,2} $b").most) == (0, 2)
    with pytest.raises(InvalidQuery) as caught:
        read("$p worksAt{0,1} $c")
    assert "no walk of 0 hops" in caught.value.message
    assert (caught.value.line, caught.value.next) == (2, "Begin the bounds at 1.")
