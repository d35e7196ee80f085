"""A picture of a schema: one SVG file that needs nothing else, readable on light and dark ground.

Node types are boxes with their properties and rules; edge types are arrows through a small box with their name, how
many may leave one node, and their properties.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from quire.graph.catalog import Catalog, Entity
from quire.graph.schema.describe import rule_texts
from quire.graph.schema.diagram_layout import Box, Layout, Link, arrange

SIZE, LINE, LETTER, PAD = 12, 17.0, 7.4, 10.0
"""Of the text: its height, the height of a line, the width of a letter, and the space around it."""

LONGEST = 56
"""Letters of a line; what is longer is cut, and shown whole when it is pointed at."""

STYLE = """
.ground{fill:#ffffff}.box{fill:#f6f8fa;stroke:#57606a}.head{fill:#dbe4ee;stroke:#57606a}.edge{fill:#ffffff;stroke:#8c959f}
.line{fill:none;stroke:#57606a;stroke-width:1.3}.tip{fill:#57606a}
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328}
.name{font-weight:bold}.rule{fill:#59636e}.key{text-decoration:underline}
@media(prefers-color-scheme:dark){
.ground{fill:#0d1117}.box{fill:#161b22;stroke:#8b949e}.head{fill:#263444;stroke:#8b949e}.edge{fill:#0d1117;stroke:#6e7681}
.line{stroke:#8b949e}.tip{fill:#8b949e}text{fill:#e6edf3}.rule{fill:#9198a1}}
"""

Spot = tuple[float, float]

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Row:
    """A line of text in a box."""

    text: str
    kind: str = ""


def picture(catalog: Catalog) -> str:
    """The schema as SVG."""
    texts = {e.id: list(_rows(e)) for e in catalog.entities}
    nodes = [_box(e.id, texts[e.id]) for e in catalog.nodes]
    labels = [_box(e.id, texts[e.id]) for e in catalog.edges]
    links = [Link(e.defined.source, e.id, e.defined.target) for e in catalog.edges]
    layout = arrange(nodes, labels, links)
    parts = [*_lines(layout, links)]
    for entity in catalog.entities:
        parts += _drawn(layout.boxes[entity.id], texts[entity.id], entity)
    width, height = round(layout.width), round(layout.height)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="Schema of the graph">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
            'orient="auto"><path class="tip" d="M0 0L10 5L0 10z"/></marker></defs>',
            f'<rect class="ground" width="{width}" height="{height}"/>',
            *parts,
            "</svg>\n",
        )
    )


# -- boxes ------------------------------------------------------------------------------------------------------------


def _rows(entity: Entity) -> Iterator[Row]:
    """The name, the properties, and the rules that are not told with a property."""
    defined = entity.defined
    name = entity.name
    if entity.kind == "edge" and (defined.at_least or defined.at_most is not None):
        name += f" {defined.at_least}..{'*' if defined.at_most is None else defined.at_most}"
    yield Row(name, "name")
    if defined.implements:
        yield Row(f"implements {', '.join(defined.implements)}", "rule")
    for prop in defined.properties:
        yield Row(f"{prop.name}: {prop.type}", "key" if prop.name in defined.key else "")
    for kind, text in rule_texts(defined):
        if kind not in ("card", "key"):
            yield Row(text, "rule")


def _box(id: str, rows: Sequence[Row]) -> Box:
    width = max(_width(_cut(row.text)) for row in rows) * LETTER + 2 * PAD
    return Box(id, max(width, 60.0), len(rows) * LINE + PAD)


def _width(text: str) -> int:
    """Letters of a fixed-width font; some scripts take two places for one."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _drawn(box: Box, rows: Sequence[Row], entity: Entity) -> Iterator[str]:
    place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}"'
    kind, corner = ("box", 4) if entity.kind == "node" else ("edge", 10)
    yield f'<g><rect class="{kind}" {place} height="{box.height:.1f}" rx="{corner}"/>'
    if entity.kind == "node":
        yield f'<rect class="head" {place} height="{LINE + PAD / 2:.1f}" rx="{corner}"/>'
    for number, row in enumerate(rows):
        y = box.y + PAD / 2 + number * LINE + SIZE
        whole = f"<title>{_safe(row.text)}</title>" if _cut(row.text) != row.text else ""
        mark = f' class="{row.kind}"' if row.kind else ""
        yield f'<text x="{box.x + PAD:.1f}" y="{y:.1f}"{mark}>{whole}{_safe(_cut(row.text))}</text>'
    yield "</g>"


def _safe(text: str) -> str:
    return escape(_UNPRINTABLE.sub("\ufffd", text))


# -- arrows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """A line from the side of one box to the side of another, through gaps between others."""

    start: str
    end: str
    through: tuple[str, ...]
    tip: bool


def _lines(layout: Layout, links: Sequence[Link]) -> Iterator[str]:
    lines = []
    for link in links:
        before, after = layout.routes[link.label]
        lines.append(_Line(link.source, link.label, tuple(before), False))
        lines.append(_Line(link.label, link.target, tuple(after), True))
    ports = _ports(lines, layout)
    for number, line in enumerate(lines):
        side = _side(line, layout)
        start = (_edge_of(layout.boxes[line.start], side), ports[number, "start"])
        end = (_edge_of(layout.boxes[line.end], -side), ports[number, "end"])
        tip = ' marker-end="url(#tip)"' if line.tip else ""
        yield f'<path class="line" d="{_path(line, side, start, end, layout)}"{tip}/>'


def _path(line: _Line, side: int, start: Spot, end: Spot, layout: Layout) -> str:
    """Level where it meets a box and where it passes a gap, curved between."""
    text, at = f"M{start[0]:.1f} {start[1]:.1f}", start
    for name in line.through:
        gap = layout.boxes[name]
        text += _curve(at, (_edge_of(gap, -side), gap.middle), side)
        at = (_edge_of(gap, side), gap.middle)
        text += f"L{at[0]:.1f} {at[1]:.1f}"
    return text + _curve(at, end, side)


def _curve(start: Spot, end: Spot, side: int) -> str:
    bend = side * max(20.0, abs(end[0] - start[0]) / 2)
    parts = (start[0] + bend, start[1], end[0] - bend, end[1], *end)
    return "C" + " ".join(f"{n:.1f}" for n in parts)


def _side(line: _Line, layout: Layout) -> int:
    """The side on which a line leaves its box, 1 for the right; it arrives on the other side of the other box."""
    return 1 if layout.boxes[line.end].column > layout.boxes[line.start].column else -1


def _edge_of(box: Box, side: int) -> float:
    return box.x + box.width if side > 0 else box.x


def _ports(lines: Sequence[_Line], layout: Layout) -> dict[tuple[int, str], float]:
    """Where each line meets its boxes: spread over the side, in the order of what they lead to."""
    at: dict[tuple[str, int], list[tuple[float, int, str]]] = {}
    for number, line in enumerate(lines):
        side = _side(line, layout)
        path = [line.start, *line.through, line.end]
        at.setdefault((line.start, side), []).append((layout.boxes[path[1]].middle, number, "start"))
        at.setdefault((line.end, -side), []).append((layout.boxes[path[-2]].middle, number, "end"))
    ports: dict[tuple[int, str], float] = {}
    for (name, _), ends in at.items():
        box = layout.boxes[name]
        for place, (_, number, which) in enumerate(sorted(ends), 1):
            ports[number, which] = box.y + box.height * place / (len(ends) + 1)
    return ports
