"""Walks of several hops: each destination once, by the fewest hops; and shortest paths."""

from __future__ import annotations

import pytest
from tests.graph.query.given import Given, edges, graph, people


@pytest.fixture(scope="module")
def given() -> Given:
    return people()


@pytest.fixture(params=[True, False], ids=["narrowed", "full"])
def narrowed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize(
    ("start", "step", "ends"),
    [
        ("a", "knows{1,1}", "b"),
        ("a", "knows{1,2}", "bc"),
        ("a", "knows{2,2}", "c"),
        ("a", "knows{1,3}", "bcd"),  # a itself was visited: the way back from c gives nothing
        ("a", "knows{3,9}", "d"),
        ("a", "knows{4,9}", ""),  # d was visited: its edge to itself gives nothing either
        ("a", "knows{0,0}", "a"),
        ("a", "knows{0,1}", "ab"),
        ("a", "knows{0,}", "abcd"),
        ("d", "knows{0,3}", "d"),
        ("e", "knows{0,3}", "e"),
        ("a", "<knows>{0,1}", "abc"),
        ("a", "knows{1,}", "bcd"),
        ("a", "knows{2,}", "cd"),
        ("d", "knows{1,}", "d"),
        ("d", "knows{2,}", ""),
        ("e", "knows{1,}", ""),
        ("a", "<knows>{1,1}", "bc"),
        ("a", "<knows>{1,2}", "bcd"),
        ("a", "<knows>{2,}", "d"),
        ("d", "<knows>{1,}", "abcd"),
    ],
)
def test_a_walk_reaches(given: Given, narrowed: bool, start: str, step: str, ends: str) -> None:
    body = f'match {{ $a: Person {{ name: "{start}" }} $a {step} $b }} return {{ $b.name }} order {{ $b.name }}'
    assert "".join(given.ask(body, reduce=narrowed)) == ends


@pytest.mark.parametrize(("end", "starts"), [("a", "bc"), ("c", "ab"), ("d", "bcd"), ("e", "")])
def test_a_walk_may_be_known_by_its_end(given: Given, narrowed: bool, end: str, starts: str) -> None:
    body = f'match {{ $b: Person {{ name: "{end}" }} $a knows{{1,2}} $b }} return {{ $a.name }} order {{ $a.name }}'
    assert "".join(given.ask(body, reduce=narrowed)) == starts


def test_all_pairs_of_a_walk(given: Given, narrowed: bool) -> None:
    found = given.ask("match { $a: Person $a knows{2,3} $b } return { $a.name, $b.name }", reduce=narrowed)
    assert sorted(x + y for x, y in found) == ["ac", "ad", "ba", "bd", "cb"]


def test_a_walk_follows_from_another(given: Given, narrowed: bool) -> None:
    body = 'match { $c: Company {name: "x"} $p worksAt $c $p knows{1,2} $q not { $q worksAt $c } } '
    body += "return { $p.name, $q.name }"
    assert sorted(given.ask(body, reduce=narrowed)) == [("a", "b"), ("c", "b"), ("c", "d")]


def test_a_walk_on_a_long_chain_has_every_distance(narrowed: bool) -> None:
    names = [f"n{n:03}" for n in range(60)]
    chain = graph(
        "node Stop { name: String @key }\nedge Next: Stop -> Stop",
        Stop=[{"name": n} for n in names],
        Next=[{"src": a, "dst": b} for a, b in zip(names, [*names[1:], names[0]], strict=True)],
    )
    found = chain.ask(
        'match { $a: Stop {name: "n000"} $a next{10,} $b } return { $b.name } order { $b.name }', reduce=narrowed
    )
    assert found == names[10:]


@pytest.mark.parametrize(
    ("ends", "bounds", "path"),
    [
        ("ad", "{1,6}", "abcd"),
        ("ad", "{1,2}", None),
        ("db", "{1,6}", None),
        ("dd", "{1,6}", "dd"),
        ("aa", "{1,6}", None),
        ("ca", "{1,6}", "ca"),
        ("ad", "{4,6}", None),
    ],
)
def test_a_shortest_path(given: Given, narrowed: bool, ends: str, bounds: str, path: str | None) -> None:
    body = (
        f'match {{ $a: Person {{name: "{ends[0]}"}} $b: Person {{name: "{ends[1]}"}} '
        f"$p = shortest($a knows{bounds} $b) }} return {{ $p.length, $p.nodes }}"
    )
    assert given.ask(body, reduce=narrowed) == ([] if path is None else [(len(path) - 1, list(path))])


def test_of_several_shortest_paths_the_smallest_ids_win(narrowed: bool) -> None:
    diamond = graph(
        "node Stop { name: String @key }\nedge Next: Stop -> Stop",
        Stop=[{"name": n} for n in "abcdz"],
        Next=edges("az", "ac", "ab", "zd", "cd", "bd"),
    )
    body = 'match { $a: Stop {name: "a"} $d: Stop {name: "d"} $p = shortest($a next{1,6} $d) } return { $p.nodes }'
    assert diamond.ask(body, reduce=narrowed) == [["a", "b", "d"]]


def test_ids_of_different_types_that_look_alike_stay_apart(given: Given, narrowed: bool) -> None:
    """Person b works at the company a, which is not the person a."""
    found = given.ask("match { $p: Person $p worksAt $c $c.name = $p.name } return { $p.name }", reduce=narrowed)
    assert found == []
    body = 'match { $p: Person {name: "b"} $p worksAt $c } return { $c.name }'
    assert given.ask(body, reduce=narrowed) == ["a"]


def test_edges_of_a_walk_are_chosen_by_what_is_computed(given: Given, narrowed: bool) -> None:
    lake = graph(
        "node P { name: String @key } edge E: P -> P { w: I64? }",
        P=[{"name": n} for n in "abcd"],
        E=edges("ab", "bc", "cd", w=[1, 2, 5]),
    )
    body = 'match { $a: P {name: "a"} $a e{1,} [w * 2 < 9, w + 0 > 0] $b } return { $b.name } order { $b.name }'
    assert lake.ask(body, reduce=narrowed) == ["b", "c"]


def test_a_path_between_two_types_goes_with_computed_conditions(given: Given, narrowed: bool) -> None:
    body = "match { $a: Person $c: Company $a.age + 1 > 30 $x = shortest($a worksAt $c) } return { $a.name, $x.length }"
    assert given.ask(body, reduce=narrowed) == [("a", 1)]


WORDS = ("Is", "Not", "Or", "Optional", "In", "Contains", "StartsWith", "True", "False", "Null", "And", "Limit")


@pytest.fixture(scope="module")
def worded() -> Given:
    schema = "node Stop { name: String @key  open: Bool? }\n" + "\n".join(f"edge {w}: Stop -> Stop" for w in WORDS)
    stops = [{"name": "a", "open": True}, {"name": "b"}]
    return graph(schema, Stop=stops, **{word: [{"src": "a", "dst": "b"}] for word in WORDS})


@pytest.mark.sampled(12)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    "match",
    [
        "$a {} $b",
        "$a: Stop  $a {} $b  $b: Stop",
        "$a {}{1,2} $b",
        "$a $e:{} $b",
        "$a {} $b  not { $b {} $a }",
        "$a: Stop  $a.open = true  optional { $a {} $b }",
        "$a: Stop  $a.open is not null  or { { $a {} $b } }",
        "$p = shortest($a {} $b)  $a: Stop  $b: Stop",
    ],
)
def test_an_edge_may_be_called_like_a_word_of_the_language(worded: Given, word: str, match: str) -> None:
    small = word[0].lower() + word[1:]
    body = f"match {{ {match.replace('{}', small)} }} return {{ $a.name, $b.name }}"
    assert worded.ask(body) == [("a", "b")]


@pytest.mark.parametrize("word", ["is", "not", "or", "optional", "limit"])
def test_such_an_edge_may_have_filters(worded: Given, word: str) -> None:
    assert worded.ask(f"match {{ $a {word} [src != dst] $b }} return {{ $a.name, $b.name }}") == [("a", "b")]
    assert worded.ask(f"match {{ $a {word}{{1,2}} [src = dst] $b }} return {{ $a.name, $b.name }}") == []
