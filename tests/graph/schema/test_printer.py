"""A catalog as text, and back."""

from __future__ import annotations

import re

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings
from tests.budget import budget

from quire.graph.catalog import Annotation, quoted
from quire.graph.schema.printer import show, show_type
from quire.graph.schema.resolve import catalog
from quire.graph.types import SCALARS

TEXT = """// people
interface Named { name: String @index @note("a \\"b\\"") }
node Person @doc("x") implements Named {
  email: String @key
  age: I32?
  tags: [String]
  @unique(name, age) @range(age, -1..) @check(email, "\\\\S+@.*")
}
node Tag { word: enum(a, b-c)? }
edge Knows: Person -> Person @card(0..2) @weight(2.5, exact=false) { since: Date @unique(src, dst) }
edge Has: Person -> Tag
"""

SHOWN = """interface Named {
  name: String @index @note("a \\"b\\"")
}

node Person @doc("x") implements Named {
  email: String @key
  age: I32?
  tags: [String]
  @unique(name, age)
  @index(name)
  @range(age, -1..)
  @check(email, "\\\\S+@.*")
}

node Tag {
  word: enum(a, b-c)?
}

edge Has: Person -> Tag

edge Knows: Person -> Person @card(0..2) @weight(2.5, exact=false) {
  since: Date
  @unique(src, dst)
}
"""


def test_the_same_catalog_is_always_shown_in_the_same_form() -> None:
    found = catalog(TEXT)
    assert show(found) == SHOWN
    assert show(catalog(SHOWN)) == SHOWN
    assert show_type(found.node("Tag"), found) == "node Tag {\n  word: enum(a, b-c)?\n}\n"
    assert show(catalog("")) == ""


# -- random schemas ---------------------------------------------------------------------------------------------------

names = st.from_regex(r"[a-z_][A-Za-z0-9_]{0,5}", fullmatch=True).filter(
    lambda n: not n.startswith("_r") and n not in ("from", "to", "_score", "src", "dst")
)
words = st.from_regex(r"[A-Za-z0-9_-]{1,4}", fullmatch=True)
literals = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
free = st.from_regex(r"x_[a-z0-9]{1,4}", fullmatch=True)
annotations = st.lists(
    st.builds(Annotation, free, st.none() | literals, st.dictionaries(free, literals, max_size=2)), max_size=2
)
patterns = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(re.escape)


@st.composite
def types(draw: st.DrawFn) -> str:
    plain = st.sampled_from(SCALARS)
    lists = st.sampled_from([f"[{s}]" for s in SCALARS if s != "Blob"])
    enums = st.lists(words, min_size=1, max_size=3, unique=True).map(lambda v: f"enum({', '.join(v)})")
    vectors = st.integers(1, 9).map(lambda n: f"Vector({n})")
    return draw(st.one_of(plain, plain, lists, enums, vectors)) + draw(st.sampled_from(["", "?"]))


def notes(found: list[Annotation]) -> str:
    return "".join(f" {a}" for a in found)


@st.composite
def bodies(draw: st.DrawFn, ends: bool, taken: dict[str, str]) -> str:
    """Properties and rules that fit them. `taken` are properties that come from an interface, with their types."""
    own = draw(st.dictionaries(names.filter(lambda n: n not in taken), types(), max_size=4))
    lines = [f"{name}: {kind}{notes(draw(annotations))}" for name, kind in own.items()]
    for name in draw(st.lists(st.sampled_from(sorted(taken)), unique=True, max_size=2)) if taken else ():
        lines.append(f"{name}: {taken[name]}{notes(draw(annotations))}")
    every = {**taken, **own}
    scalars = sorted(n for n, k in every.items() if not k.startswith(("[", "Vector", "Blob")))
    sets = st.lists(st.sampled_from([*scalars, *(["src", "dst"] if ends else [])] or ["?"]), min_size=1, unique=True)
    for kind in ("unique", "index"):
        for chosen in draw(st.lists(sets, max_size=2)):
            if "?" not in chosen:
                lines.append(f"@{kind}({', '.join(chosen)})")
    required = [n for n in scalars if not every[n].endswith("?")]
    if required and not ends and draw(st.booleans()):
        key = draw(st.lists(st.sampled_from(required), min_size=1, unique=True))
        lines.append(f"@key({', '.join(key)})")
    for name, kind in every.items():
        base = kind.rstrip("?")
        if base in ("F32", "F64") and draw(st.booleans()):
            low, high = sorted(draw(st.tuples(st.integers(-5, 5), st.floats(-1e300, 1e300))))
            lines.append(
                f"@range({name}, {draw(st.sampled_from([f'{low!r}..{high!r}', f'{low!r}..', f'..{high!r}']))})"
            )
        if base == "String" and draw(st.booleans()):
            lines.append(f"@check({name}, {quoted(draw(patterns))})")
    return "\n".join(draw(st.permutations(lines)))


@st.composite
def schemas(draw: st.DrawFn) -> str:
    shared = draw(st.dictionaries(names, types(), max_size=3))
    parts = ["interface Shared {" + " ".join(f"{n}: {k}{notes(draw(annotations))}" for n, k in shared.items()) + "}"]
    nodes = draw(st.lists(st.sampled_from(["A", "B", "C"]), min_size=1, unique=True))
    for name in nodes:
        inherits = draw(st.booleans())
        head = " implements Shared" if inherits else ""
        body = draw(bodies(False, shared if inherits else {}))
        parts.append(f"node {name}{notes(draw(annotations))}{head} {{\n{body}\n}}")
    for name in draw(st.lists(st.sampled_from(["E", "F"]), unique=True)):
        card = draw(st.sampled_from(["", "@card(0..1)", "@card(2..)", "@card(1..7)"]))
        ends = draw(st.tuples(st.sampled_from(nodes), st.sampled_from(nodes)))
        body = draw(bodies(True, {}))
        parts.append(f"edge {name}: {ends[0]} -> {ends[1]}{notes(draw(annotations))} {card} {{\n{body}\n}}")
    return "\n".join(draw(st.permutations(parts)))


@settings(
    max_examples=budget(15, full=150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(schemas())
def test_reading_what_is_shown_gives_the_same_catalog(text: str) -> None:
    found = catalog(text)
    again = catalog(show(found))
    assert (again.entities, again.interfaces) == (found.entities, found.interfaces)
    assert show(again) == show(found)
