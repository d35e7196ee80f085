"""The golden file as tables: for a terminal, and for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.laboratory.costs.golden import Golden, told
from tests.laboratory.costs.laboratory import NO_SLACK, Bill, Slack, Verb
from tests.laboratory.costs.lakes import CONDITIONS, Condition

Row = Sequence[str]

HEAD: Row = ("verb", "ledger", "tables", "hops", "later", "largest lake", "never maintained")
GROWTH_HEAD: Row = ("verb", "requests more", "why")
SLACK_HEAD: Row = ("why", "requests, hops more at most", "verbs")
PER = {
    "per_commit": "for a commit",
    "per_table": "for a table",
    "per_table_unmaintained": "for a table, if never maintained",
}


def rows(golden: Golden, verbs: Iterable[Verb]) -> list[Row]:
    """What each verb costs on the smallest lake it suits, and how many requests and hops on the largest."""
    found: list[Row] = []
    for verb in verbs:
        known = [bill for c in sorted(CONDITIONS) if c.maintained and (bill := golden.bill(verb, c)) is not None]
        if known:
            small = known[0]
            later = str(small.later) if small.later else "–"
            large = [_short(golden, verb, replace(verb.largest, maintained=kept)) for kept in (True, False)]
            counts = [told(small.quire) or "–", told(small.lance) or "–"]
            found.append((verb.name, *counts, str(small.hops), later, *large))
    return found


def growth_rows(golden: Golden, verbs: Iterable[Verb]) -> list[Row]:
    """By how much verbs become dearer as a lake grows, and why; the same for several verbs is said once."""
    found: list[Row] = []
    for verb in verbs:
        for per, rate in golden.growth.get(verb.name, {}).items():
            why = verb.per_commit if per == "per_commit" else verb.per_table
            found.append((verb.name, f"{rate:g} {PER.get(per, per)}", why))
    return found


def slack_rows(verbs: Iterable[Verb]) -> list[Row]:
    """The constants by which verbs may be dearer on a larger lake."""
    found: dict[Slack, list[str]] = {}
    for verb in verbs:
        if verb.slack != NO_SLACK:
            found.setdefault(verb.slack, []).append(verb.name)
    return [(slack.why, f"{slack.requests}, {slack.hops}", "; ".join(names)) for slack, names in found.items()]


def _short(golden: Golden, verb: Verb, condition: Condition) -> str:
    bill: Bill | None = golden.bill(verb, condition)
    return "–" if bill is None else f"{bill.total} / {bill.hops}"


def text(golden: Golden, verbs: Sequence[Verb]) -> str:
    """Both tables for a terminal."""
    return f"{_aligned(HEAD, rows(golden, verbs))}\n\n{_aligned(GROWTH_HEAD, growth_rows(golden, verbs))}\n"


def _aligned(head: Row, lines: Sequence[Row]) -> str:
    table = [head, *lines]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    )


def markdown(head: Row, lines: Sequence[Row]) -> str:
    """A table for the documentation."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *lines))


def into_page(page: Path, golden: Golden, verbs: Sequence[Verb]) -> None:
    """Put the tables in their places on a page."""
    page.write_text(on_page(page.read_text(), golden, verbs))


def on_page(page: str, golden: Golden, verbs: Sequence[Verb]) -> str:
    """The page as it should be: what stands between the marks `costs`, `growth` and `slack` is made."""
    for mark, table in (
        ("costs", markdown(HEAD, rows(golden, verbs))),
        ("growth", markdown(GROWTH_HEAD, growth_rows(golden, verbs))),
        ("slack", markdown(SLACK_HEAD, slack_rows(verbs))),
    ):
        begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"The page has no place between {begin} and {end}.")
        page = f"{before}{begin}\n{table}\n{end}{after}"
    return page
