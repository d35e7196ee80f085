"""The lanes of a commit graph, as lines of text: a lane for every line of commits that is waiting for its next one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """Lines of the drawing: those before the line of a commit, its own, and its lane."""

    before: tuple[str, ...]
    line: str
    lane: int
    after: tuple[str, ...]


def drawn(commits: Iterable[tuple[Hashable, Sequence[Hashable]]]) -> Iterator[Row]:
    """For every commit, with its parents that will come: how it is drawn. Children come before their parents."""
    lanes: list[Hashable | None] = []
    told: set[Hashable] = set()
    for commit, given in commits:
        parents = [p for p in dict.fromkeys(given) if p not in told]
        waiting = [n for n, lane in enumerate(lanes) if lane == commit]
        if not waiting:
            waiting = [_free(lanes, 0)]
            _set(lanes, waiting[0], commit)
        at, *others = waiting
        before = (_joint(lanes, at, others, closing=True),) if others else ()
        for lane in others:
            lanes[lane] = None
        line = " ".join("●" if n == at else "│" if lane is not None else " " for n, lane in enumerate(lanes))
        told.add(commit)
        lanes[at] = parents[0] if parents else None
        ends, opened = [], set()
        for parent in parents[1:]:
            if parent in lanes:
                ends.append(lanes.index(parent))
                continue
            lane = _free(lanes, at + 1)
            _set(lanes, lane, parent)
            ends.append(lane)
            opened.add(lane)
        after = (_joint(lanes, at, ends, closing=False, opened=opened),) if ends else ()
        while lanes and lanes[-1] is None:
            lanes.pop()
        yield Row(before, line.rstrip(), at, after)


def _free(lanes: list[Hashable | None], low: int) -> int:
    return next((n for n in range(low, len(lanes)) if lanes[n] is None), max(low, len(lanes)))


def _set(lanes: list[Hashable | None], at: int, commit: Hashable) -> None:
    lanes.extend([None] * (at + 1 - len(lanes)))
    lanes[at] = commit


def _joint(
    lanes: list[Hashable | None],
    at: int,
    ends: Sequence[int],
    *,
    closing: bool,
    opened: set[int] = frozenset(),  # type: ignore[assignment]
) -> str:
    """The line between two commits on which lanes part or come together."""
    left, right = min([at, *ends]), max([at, *ends])
    text = ""
    for n, lane in enumerate(lanes):
        if n == at:
            sign = "┼" if left < at < right else "├" if at < right else "┤"
        elif n in ends:
            sign = _end(n, at, inner=left < n < right, closing=closing, opened=n in opened)
        elif left < n < right:
            sign = "─" if lane is None else "┼"
        else:
            sign = " " if lane is None else "│"
        text += sign + ("─" if left <= n < right else " ")
    return text.rstrip()


def _end(n: int, at: int, *, inner: bool, closing: bool, opened: bool) -> str:
    if closing:
        return "┴" if inner else "╯" if n > at else "╰"
    if opened:
        return "┬" if inner else "╮" if n > at else "╭"
    return "┼" if inner else "┤" if n > at else "├"
