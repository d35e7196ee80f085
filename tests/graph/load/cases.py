"""Loads of the graph of `tests.graph.load.twice` that every engine does and tells alike."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.graph.load.twice import copies, edge, loaded, node, person, written


@dataclass(frozen=True)
class Case:
    """Files of rows, how they are loaded, and what both engines say: the class of an error, and rules that are told."""

    mode: str
    files: list[list[Any]]
    error: str | None = None
    rules: set[str] = field(default_factory=set)
    rejected: int = 0
    how: dict[str, Any] = field(default_factory=dict)
    embeds: bool = True
    stops: bool = False
    """Whether it is refused before all is read: then every task has written what it rejected up to there."""


ALONE = [
    [person("x1", age=200), person("x2", mood="odd"), person("x3", email="nobody"), "{nonsense", person("x4")],
    [
        node("Person", name="x5"),
        person("x6", colour="red"),
        node("Nobody", name="x"),
        person("x7", age="old"),
        edge("Likes", "p0", None),
        person("x8", age=7, photo="base64:AQ=="),
    ],
]
KEYS = [
    [person("y1"), person("p1", age=1), person("y2"), node("Note", "n1", text="again"), node("Note", "n3", text="x")],
    [person("y1", age=2), person("y3"), node("Note", "n3", text="y"), node("Note", text="fresh")],
]
SETS = [
    [
        person("z1", email="p2@x"),
        person("z2", email="z@x"),
        person("z3"),
        edge("Likes", "z3", "nobody"),
        edge("LivesIn", "p0", "Rome"),
        node("House", no=7),
    ],
    [
        person("z4", email="z@x", photo="base64:BBBB", text="hello there"),
        edge("Likes", "ghost", "z3", n=3),
        edge("LivesIn", "z3", "Rome"),
        edge("LivesIn", "z3", "Oslo"),
        edge("LivesIn", "z2", "Oslo"),
        edge("Knows", "p0", "p1"),
        node("Tag", word="red"),
        node("Tag", word="green"),
        node("House", no=8),
        edge("Has", 8, "Rome"),
        edge("Knows", "p5", "ghost"),
    ],
]
TOGETHER = [[row for row in file if row.get("type", row.get("edge")) in ("Person", "Tag", "Knows")] for file in SETS]
SOME_TOGETHER = [
    [node("Person", name="p0", email="p2@x"), node("Person", name="p1", age=3), edge("Knows", "p0", "p1", why="seen")],
    [edge("Knows", "p0", "ghost"), edge("Knows", "p3", "p4"), edge("LivesIn", "p0", "Oslo", "v2")],
    [edge("LivesIn", "p0", "Nowhere", "v1"), person("t1", age=9), edge("Knows", "t1", "p1", why="new")],
]
PARTIAL = [
    [
        node("Person", name="p0", age=99),
        node("Person", name="p1", city="Bonn", age=None),
        person("m1"),
        node("Person", name="p2", photo=None, text="new words"),
    ],
    [node("Person", name="p3"), person("m2", age=3, level=9, text="tea"), node("City", name="Ulm")],
    [
        {
            "type": "Person",
            "data": {
                **{"name": "p4", "age": 1, "email": None, "city": "Kyiv", "level": 2, "mood": "sad"},
                **{"photo": "base64:/w==", "text": None, "vec": None},
            },
        }
    ],
]
UNIQUE = [
    [edge("Knows", "p0", "p1", n=7), edge("Knows", "p3", "p4", why="new", n=1), node("Tag", word="red", n=9)],
    [edge("Knows", "p1", "p2", why=None), node("Tag", word="black"), edge("Knows", "p4", "p5", "k9", why="w", n=0)],
]
UNIQUE_WRONG = [
    [edge("Knows", "p0", "p1", n=7), edge("Knows", "p0", "p1", n=8), edge("Knows", "p5", "p0", "k2", n=1)],
    [edge("Knows", "p2", "p0"), edge("Knows", "p2", "p0")],
]
HOMELESS = [[node("Person", name="h1", age=1), node("Person", name="p1", age=2)], [node("Person", name="p2", age=3)]]
WHOLE = [[node("Note", "n1", text="a", stars=5), node("Note", "n8", text="b", stars=None)]]
ORPHANS = [[person("p0"), person("p1")], [person("new")]]
TWICE = [[node("Note", "o1", text="1"), node("Note", "o2", text="2")], [node("Note", "o1", text="3")]]
GOOD = [
    [*(person(f"g{i}", age=i, text=f"tea {i}", photo="base64:AAEC") for i in range(9)), node("Tag", word="pink")],
    [edge("Knows", f"g{i}", "g0", why="w") for i in range(1, 9)],
    [node("House", no=2), edge("Has", 2, "Oslo"), node("Note", text="n"), edge("Likes", "g1", "p1", n=1)],
]

CASES = {
    "append": Case("append", GOOD),
    "append without an embedder": Case("append", GOOD, embeds=False),
    "append of rows that are wrong by themselves": Case(
        "append", ALONE, "IntegrityError", {"range", "enum", "check", "json", "required", "property", "unknown", "type"}
    ),
    "append that stops at two": Case(
        "append", ALONE, "IntegrityError", {"json", "range"}, how={"max_errors": 2}, stops=True
    ),
    "append without rows that are wrong by themselves": Case(
        "append", ALONE, rules={"range", "enum"}, rejected=9, how={"skip_rejects": True}
    ),
    "append without too many rows": Case(
        "append", ALONE, "IntegrityError", {"json"}, how={"skip_rejects": 3}, stops=True
    ),
    "append of keys that clash": Case("append", KEYS, "IntegrityError", {"key"}),
    "append without keys that clash": Case("append", KEYS, rules={"key"}, rejected=4, how={"skip_rejects": True}),
    "append that breaks rules together": Case(
        "append", SETS, "IntegrityError", {"unique", "end", "card"}, how={"max_errors": 50}
    ),
    "append without what breaks rules together": Case(
        "append", SETS, rules={"unique", "end", "card"}, rejected=10, how={"skip_rejects": 30}
    ),
    "merge of rows with some properties": Case("merge", PARTIAL),
    "merge of new rows that lack what is required": Case("merge", HOMELESS, "IntegrityError", {"required"}),
    "merge without new rows that lack what is required": Case(
        "merge", HOMELESS, rules={"required"}, rejected=1, how={"skip_rejects": True}
    ),
    "merge by what is unique": Case("merge", UNIQUE),
    "merge by what is unique that clashes": Case("merge", UNIQUE_WRONG, "IntegrityError", {"key"}),
    "merge by what is unique without clashes": Case(
        "merge", [UNIQUE_WRONG[0]], rules={"key"}, rejected=2, how={"skip_rejects": True}
    ),
    "merge of whole rows": Case("merge", WHOLE),
    "merge edges by nothing": Case("merge", [[edge("Likes", "p0", "p1")]]),
    "merge nodes by nothing": Case("merge", [[node("Note", text="1")]], "Refused"),
    "merge that breaks rules together": Case(
        "merge",
        TOGETHER,
        "IntegrityError",
        {"unique", "end"},
    ),
    "merge without what breaks rules together": Case(
        "merge", TOGETHER, rules={"unique", "end"}, rejected=3, how={"skip_rejects": True}
    ),
    "merge of some properties without what breaks rules together": Case(
        "merge", SOME_TOGETHER, rules={"unique", "end", "card"}, rejected=4, how={"skip_rejects": 9}
    ),
    "overwrite": Case("overwrite", [[node("Note", text="x")], [edge("LivesIn", "p1", "Rome")]]),
    "overwrite that leaves edges behind": Case("overwrite", ORPHANS, "IntegrityError", {"orphan"}),
    "overwrite with a key that comes twice": Case("overwrite", TWICE, "IntegrityError", {"key"}),
    "overwrite without a key that comes twice": Case(
        "overwrite", TWICE, rules={"key"}, rejected=1, how={"skip_rejects": True}
    ),
}


def assert_alike(base: Path, folder: Path, case: Case, engine: Any) -> None:
    """Load in this process and by an engine, and compare all that the two did and told."""
    here, there = copies(base, folder)
    if not case.embeds:
        here.embedder = there.embedder = None
    source = written(folder / "in", case.files)
    first = loaded(here, source, case.mode, folder / "rejects.ndjson", **case.how)
    second = loaded(there, source, case.mode, folder / "rejects", engine=engine, **case.how)
    assert first.error == case.error
    assert case.rules <= {rule for _, rule, *_ in first.violations}
    assert case.error is not None or first.rejected == case.rejected
    if case.stops:
        assert set(first.rejects) <= set(second.rejects)
        first, second = replace(first, rejects=[]), replace(second, rejects=[])
    assert second == first
