"""Where the boxes of a picture stand: in columns from left to right, so that most arrows lead to the right.

Columns of node types and of edge types take turns. Every edge type is a small box of its own between its ends, and an
arrow that passes a column has a gap of its own there: so no label lies on another, and no line runs behind a box.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

GAP_ACROSS, GAP_DOWN = 48.0, 22.0
MARGIN = 24.0
GAP_HEIGHT = 4.0
ROUNDS = 6
"""How often the boxes of a column are put in order by those of its neighbours."""


@dataclass
class Box:
    """A rectangle; `id` names what it stands for."""

    id: str
    width: float
    height: float
    column: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True)
class Link:
    """An edge type: a box between two boxes."""

    source: str
    label: str
    target: str


@dataclass
class Layout:
    boxes: dict[str, Box]
    routes: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    """By label: the gaps that its line passes from the source to the label, and from the label to the target."""
    width: float = 0.0
    height: float = 0.0


def arrange(nodes: Sequence[Box], labels: Sequence[Box], links: Sequence[Link]) -> Layout:
    """Place every box. No two of them overlap."""
    levels = _levels([n.id for n in nodes], links)
    layout = Layout({box.id: box for box in (*nodes, *labels)})
    for box in nodes:
        box.column = 2 * levels[box.id]
    for link in links:
        first = min(levels[link.source], levels[link.target])
        # Right of the end that is farther left. An arrow within a column goes out there and comes back.
        layout.boxes[link.label].column = 2 * first + 1
    for link in links:
        layout.routes[link.label] = _gaps(layout, link.source, link.label), _gaps(layout, link.label, link.target)
    columns = _in_columns(layout.boxes.values())
    _order(columns, layout, links)
    _place(columns, layout)
    return layout


def _gaps(layout: Layout, start: str, end: str) -> list[str]:
    """Keep a gap in every column between two boxes."""
    first, last = layout.boxes[start].column, layout.boxes[end].column
    columns = range(first + 1, last) if first < last else range(first - 1, last, -1)
    names = []
    for column in columns:
        gap = Box(f"{start} {end} {column}", 0.0, GAP_HEIGHT, column)
        layout.boxes[gap.id] = gap
        names.append(gap.id)
    return names


def _levels(nodes: Sequence[str], links: Iterable[Link]) -> dict[str, int]:
    """How far to the right each node type stands: beyond everything that leads to it, cycles left aside."""
    onward: dict[str, list[str]] = {n: [] for n in nodes}
    for link in links:
        if link.target != link.source and link.target not in onward[link.source]:
            onward[link.source].append(link.target)
    incoming = {t for targets in onward.values() for t in targets}
    order: list[str] = []
    forward: set[tuple[str, str]] = set()
    state: dict[str, int] = {}
    for root in sorted(nodes, key=lambda n: (n in incoming, -len(onward[n]), n)):
        _visit(root, onward, state, order, forward)
    levels = dict.fromkeys(nodes, 0)
    for node in reversed(order):
        for target in onward[node]:
            if (node, target) in forward:
                levels[target] = max(levels[target], levels[node] + 1)
    return levels


def _visit(
    root: str, onward: dict[str, list[str]], state: dict[str, int], order: list[str], forward: set[tuple[str, str]]
) -> None:
    """A walk in depth that notes what leads onward; what leads back to a type on the way is left out."""
    stack = [(root, iter(onward[root]))] if root not in state else []
    state.setdefault(root, 1)
    while stack:
        node, rest = stack[-1]
        target = next(rest, None)
        if target is None:
            state[node] = 2
            order.append(node)
            stack.pop()
        elif state.get(target) != 1:
            forward.add((node, target))
            if target not in state:
                state[target] = 1
                stack.append((target, iter(onward[target])))


def _in_columns(boxes: Iterable[Box]) -> list[list[Box]]:
    found: dict[int, list[Box]] = {}
    for box in boxes:
        found.setdefault(box.column, []).append(box)
    return [found[column] for column in sorted(found)]


def _order(columns: list[list[Box]], layout: Layout, links: Iterable[Link]) -> None:
    """Put neighbours at one height, so that few lines cross."""
    boxes = layout.boxes
    near: dict[str, list[str]] = {name: [] for name in boxes}
    for link in links:
        before, after = layout.routes[link.label]
        chain = [link.source, *before, link.label, *after, link.target]
        for one, other in pairwise(chain):
            near[one].append(other)
            near[other].append(one)
    _stack(columns)
    for number in range(ROUNDS):
        for column in columns if number % 2 == 0 else reversed(columns):
            weights = {b.id: _weight(b, near[b.id], boxes) for b in column}
            column.sort(key=lambda b: (weights[b.id], b.id))
            _stack([column])


def _weight(box: Box, near: Sequence[str], boxes: dict[str, Box]) -> float:
    return sum(boxes[n].middle for n in near) / len(near) if near else box.middle


def _stack(columns: Iterable[list[Box]]) -> None:
    """Boxes of a column under each other, the column centred on a common line."""
    for column in columns:
        y = -(sum(b.height for b in column) + GAP_DOWN * (len(column) - 1)) / 2
        for box in column:
            box.y = y
            y += box.height + GAP_DOWN


def _place(columns: list[list[Box]], layout: Layout) -> None:
    top = min((box.y for column in columns for box in column), default=0.0)
    x = MARGIN
    for column in columns:
        width = max(box.width for box in column)
        for box in column:
            box.width = box.width or width  # a gap reaches across its column
            box.x, box.y = x + (width - box.width) / 2, box.y - top + MARGIN
            layout.height = max(layout.height, box.y + box.height + MARGIN)
        x += width + GAP_ACROSS
    layout.width = max(x - GAP_ACROSS + MARGIN, 2 * MARGIN)
    layout.height = max(layout.height, 2 * MARGIN)
