"""Which verbs may cost more on a larger lake, and by how much: rules over the golden file, checked without a server."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.laboratory.costs.golden import Golden
from tests.laboratory.costs.laboratory import Bill, Verb
from tests.laboratory.costs.lakes import CONDITIONS, GROWING, SMALLEST, SMALLEST_GRAPH, TOGETHER, Condition

LATER = 1 + len(GROWING)
"""What may follow a commit on a larger lake beyond what follows it on the smallest: one commit in 32 is followed by a
checkpoint, and the listing of a table with a thousand versions has a page more."""


def growth(verbs: Sequence[Verb], golden: Golden) -> dict[str, dict[str, float]]:
    """Requests that one more commit or table costs the verbs that may grow.

    `per_commit` is on a lake that was never maintained, `per_table` on one that is, and `per_table_unmaintained` on one
    that was not.
    """
    found: dict[str, dict[str, float]] = {}
    for verb in verbs:
        rates = {}
        if verb.per_commit:
            rates["per_commit"] = _slope(golden, verb, "depth", (100, 1000), maintained=False)
        if verb.per_table:
            rates["per_table"] = _slope(golden, verb, "tables", (50, 500), maintained=True)
            rates["per_table_unmaintained"] = _slope(golden, verb, "tables", (50, 500), maintained=False)
        if growing := {per: rate for per, rate in rates.items() if rate}:
            found[verb.name] = growing
    return found


def _slope(golden: Golden, verb: Verb, what: str, sizes: tuple[int, int], *, maintained: bool) -> float:
    least = SMALLEST_GRAPH if verb.graph else SMALLEST
    kept = replace(least, maintained=maintained)
    small, large = (replace(kept, depth=size) if what == "depth" else replace(kept, tables=size) for size in sizes)
    before, after = golden.bill(verb, small), golden.bill(verb, large)
    if what == "depth" and not verb.suits(small):
        # It needs more tables than the lakes of each depth have; of those with many, one is deep.
        kept, sizes = replace(verb.largest, maintained=maintained), (1, verb.largest.depth)
        before, after = golden.bill(verb, replace(kept, depth=1, branches=1)), golden.bill(verb, kept)
    if before is None or after is None:
        return 0.0
    return math.ceil(1000 * (after.total - before.total) / (sizes[1] - sizes[0])) / 1000


def violations(verbs: Sequence[Verb], golden: Golden) -> Iterator[str]:
    """Everything that grows although it may not, or by more than is stated."""
    for verb in verbs:
        for condition in CONDITIONS:
            small, large = _smallest(verb, golden, condition), golden.bill(verb, condition)
            if small is not None and large is not None:
                yield from _compare(verb, condition, golden.growth.get(verb.name, {}), *small, large)


def _smallest(verb: Verb, golden: Golden, like: Condition) -> tuple[Condition, Bill] | None:
    """The bill on the smallest lake with the same upkeep that the verb suits."""
    for condition in sorted(CONDITIONS):
        bill = golden.bill(verb, condition)
        if condition.maintained == like.maintained and bill is not None:
            return condition, bill
    return None


def _compare(
    verb: Verb, condition: Condition, rates: dict[str, float], least: Condition, small: Bill, large: Bill
) -> Iterator[str]:
    upkeep = "" if condition.maintained else "_unmaintained"
    stated = rates.get(f"per_table{upkeep}", 0.0) * (condition.tables - least.tables)
    if not condition.maintained:
        stated += rates.get("per_commit", 0.0) * (_commits(condition) - _commits(least))
    for what, before, after, allowed in (
        ("requests", small.total, large.total, stated + verb.slack.requests),
        ("hops", small.hops, large.hops, large.hops if stated else verb.slack.hops),
        ("later requests", small.later, large.later, LATER),
    ):
        if after - before > allowed:
            added = f"{after} {what}, {before} on the smallest lake, and {allowed:.0f} more are allowed"
            yield f"{verb.name} ({condition}): {added}."


def _commits(condition: Condition) -> int:
    return condition.depth + -(-condition.tables // TOGETHER)
