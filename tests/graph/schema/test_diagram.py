"""The picture of a schema: complete, well-formed, and with no box on another."""

from __future__ import annotations

import itertools
import random
import re
import xml.etree.ElementTree as ET

import pytest

from quire.graph.schema.diagram import LETTER, picture
from quire.graph.schema.diagram_layout import Box, Link, arrange
from quire.graph.schema.resolve import catalog

SVG = "{http://www.w3.org/2000/svg}"

TEXT = """
interface Named { name: String }
node Person implements Named { email: String @key age: I32? @range(age, 0..150) @check(email, "<&>") }
node Company { slug: String @key }
edge WorksAt: Person -> Company @card(0..1) { since: Date? }
edge Knows: Person -> Person
edge Owns: Company -> Company @card(1..)
edge Hires: Company -> Person
"""


def texts(svg: str) -> list[str]:
    return ["".join(t.itertext()) for t in ET.fromstring(svg).iter(f"{SVG}text")]


def test_every_type_property_and_rule_is_in_the_picture() -> None:
    svg = picture(catalog(TEXT))
    said = texts(svg)
    for text in ("Person", "implements Named", "email: String", "age: I32?", "@range(age, 0..150)", "WorksAt 0..1"):
        assert text in said
    assert '@check(email, "<&>")' in said
    assert {"Knows", "Owns 1..*", "Hires", "since: Date?"} <= set(said)
    tips = [p for p in ET.fromstring(svg).iter(f"{SVG}path") if p.get("marker-end")]
    assert len(tips) == 4


def test_the_picture_needs_nothing_else_and_knows_dark_ground() -> None:
    svg = picture(catalog(TEXT))
    assert "prefers-color-scheme:dark" in svg
    assert set(re.findall(r'https?://[^"<]+', svg)) == {"http://www.w3.org/2000/svg"}
    assert "<script" not in svg


def test_text_stays_inside_its_box() -> None:
    root = ET.fromstring(picture(catalog(TEXT)))
    groups = list(root.iter(f"{SVG}g"))
    assert len(groups) == 6
    for group in groups:
        box = group.find(f"{SVG}rect")
        assert box is not None
        x, y, width, height = (float(box.get(k, "nan")) for k in ("x", "y", "width", "height"))
        for text in group.iter(f"{SVG}text"):
            assert x < float(text.get("x", "nan"))
            assert float(text.get("x", "nan")) + len("".join(text.itertext())) * LETTER <= x + width
            assert y + 10 < float(text.get("y", "nan")) < y + height


def test_long_and_odd_texts_are_cut_and_escaped() -> None:
    long = "x" * 200
    svg = picture(
        catalog(f'node A {{ a: String @check(a, "{long}") b: enum({long}) c: String @check(c, "\\u0000\\uffff") }}')
    )
    root = ET.fromstring(svg)
    shown = [t.text or "" if t.find(f"{SVG}title") is None else t[0].tail or "" for t in root.iter(f"{SVG}text")]
    assert max(map(len, shown)) <= 56
    assert any(long in (t.text or "") for t in root.iter(f"{SVG}title"))


def test_an_empty_schema_is_an_empty_picture() -> None:
    assert texts(picture(catalog(""))) == []


@pytest.mark.parametrize("seed", range(20))
def test_no_box_lies_on_another_and_no_line_runs_behind_one(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [Box(f"n{i}", chance.uniform(60, 200), chance.uniform(20, 150)) for i in range(chance.randint(1, 12))]
    links = [Link(chance.choice(nodes).id, f"e{i}", chance.choice(nodes).id) for i in range(chance.randint(0, 25))]
    labels = [Box(k.label, chance.uniform(60, 120), chance.uniform(20, 60)) for k in links]
    layout = arrange(nodes, labels, links)
    for a, b in itertools.combinations(layout.boxes.values(), 2):
        apart = a.x + a.width < b.x or b.x + b.width < a.x or a.y + a.height < b.y or b.y + b.height < a.y
        assert apart, (a, b)
    for box in layout.boxes.values():
        assert 0 <= box.x <= box.x + box.width <= layout.width
        assert 0 <= box.y <= box.y + box.height <= layout.height
    for link in links:
        before, after = layout.routes[link.label]
        columns = [layout.boxes[n].column for n in (link.source, *before, link.label, *after, link.target)]
        assert all(abs(one - other) == 1 for one, other in itertools.pairwise(columns))
