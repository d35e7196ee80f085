"""The golden file: what every verb costs on every lake, one line each. It is read by the tests and written on request.

    ["append to 1 table"]
    "maintained, depth 1, 2 tables, 1 branch" = { hops = 4, quire = "create 1", lance = "PUT 2, create 1", … }

`quire` counts requests for objects below `_quire/`, `lance` those for tables; the caller waits for both. `later_quire`
and `later_lance` happen in the background after the answer. The first part of the file states by how many requests a
verb becomes dearer with every commit or table, for those that do.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.laboratory.costs.laboratory import Bill, Verb
from tests.laboratory.costs.lakes import Condition

from quire.store.threads import THREADS

HEAD = """\
# What every verb costs on a real S3-compatible server: requests by kind, and how many of them follow one another.
# `make costs` measures it and prints it; `make costs WRITE=1` writes this file. Change it in the commit that moves a
# number. docs/guides/costs.md says how to read it.
"""
ADVICE = "If that is meant, run `make costs WRITE=1` and commit the golden file with the change."
GROWTH = "growth"
PARTS = {
    "quire": "requests for the ledger",
    "lance": "requests for tables",
    "later_quire": "later requests for the ledger",
    "later_lance": "later requests for tables",
}


@dataclass
class Golden:
    """Bills by verb and condition, and by how many requests each verb grows."""

    bills: dict[str, dict[str, Bill]] = field(default_factory=dict)
    growth: dict[str, dict[str, float]] = field(default_factory=dict)

    def bill(self, verb: Verb, condition: Condition) -> Bill | None:
        return self.bills.get(verb.name, {}).get(str(condition))

    def add(self, verb: Verb, condition: Condition, bill: Bill) -> None:
        self.bills.setdefault(verb.name, {})[str(condition)] = bill


def read(path: Path) -> Golden:
    """What is written; nothing where there is no file."""
    found: dict[str, Any] = tomllib.loads(path.read_text()) if path.exists() else {}
    growth = found.pop(GROWTH, {})
    return Golden({verb: {c: _bill(line) for c, line in lines.items()} for verb, lines in found.items()}, growth)


def write(path: Path, golden: Golden, verbs: Iterable[Verb], conditions: Iterable[Condition]) -> None:
    """Write what there is of these verbs and conditions, in their order."""
    wanted, where = list(verbs), list(conditions)
    parts = [HEAD, f"\n[{GROWTH}]\n"]
    for verb in wanted:
        if rates := golden.growth.get(verb.name):
            parts.append(f'"{verb.name}" = {{ {", ".join(f"{per} = {n}" for per, n in rates.items())} }}\n')
    for verb in wanted:
        lines = [_line(c, bill) for c in where if (bill := golden.bill(verb, c)) is not None]
        parts += [f'\n["{verb.name}"]\n', *lines]
    path.write_text("".join(parts))


def _line(condition: Condition, bill: Bill) -> str:
    counts = [f'{part} = "{told(number)}"' for part in PARTS if (number := getattr(bill, part))]
    return f'"{condition}" = {{ {", ".join([f"hops = {bill.hops}", *counts])} }}\n'


def _bill(line: dict[str, Any]) -> Bill:
    counts = {part: _counts(line.get(part, "")) for part in PARTS}
    return Bill(hops=line["hops"], **counts)


def _counts(text: str) -> dict[str, int]:
    return {kind: int(number) for kind, number in (part.split() for part in text.split(", ") if part)}


def told(counts: Mapping[str, int]) -> str:
    """Requests by kind, as text."""
    return ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items()))


def moved(verb: Verb, condition: Condition, old: Bill | None, new: Bill) -> list[str]:
    """What is not as it was written, in words."""
    where = f"{verb.name} ({condition})"
    if old is None:
        return [f"{where} is not in the golden file. {ADVICE}"]
    found = []
    for part, title in PARTS.items():
        before, now = told(getattr(old, part)), told(getattr(new, part))
        if before != now:
            found.append(f"{where}: {title}: {before or 'none'} → {now or 'none'}. {ADVICE}")
    if old.hops != new.hops and new.total <= THREADS:  # more than that go in waves, as they come
        found.append(f"{where}: hops: {old.hops} → {new.hops}. {ADVICE}")
    return found
