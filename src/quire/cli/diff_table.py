"""The rows of a diff as a table of the cells that changed, for a terminal.

Colours are rich's business: none where the terminal has none, or where NO_COLOR asks for none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

OLD, NEW, SAME = "red", "green", "dim"
ARROW = " → "


def draw(rows: dict[str, list[Any]], key: Sequence[str], shown: Callable[[Any], str], console: Console) -> None:
    """Draw rows that were `added`, `changed` (before and after) and `removed`; `shown` is how a value is written."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    columns = columns_of(rows, key)
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("", *columns):
        table.add_column(Text(name))
    for sign, style, what in (("+", NEW, "added"), ("~", "", "changed"), ("-", OLD, "removed")):
        for row in rows[what]:
            if what == "changed":
                cells = [_cell(row["before"], row["after"], name, key, shown) for name in columns]
            else:
                cells = [Text(shown(row[name]) if name in row else "", style) for name in columns]
            table.add_row(Text(sign, style or "yellow"), *cells)
    if table.row_count:
        console.print(table)


def columns_of(rows: dict[str, list[Any]], key: Sequence[str]) -> list[str]:
    """The key, then every column in which something differs: of a row that came or went, all that it has."""
    found = dict.fromkeys(key)
    for row in (*rows["added"], *rows["removed"]):
        found |= dict.fromkeys(row)
    for row in rows["changed"]:
        before, after = row["before"], row["after"]
        names = dict.fromkeys([*after, *before])
        found |= {n: None for n in names if (n in before) != (n in after) or before.get(n) != after.get(n)}
    return list(found)


def _cell(before: dict[str, Any], after: dict[str, Any], name: str, key: Sequence[str], shown: Any) -> Text:
    from rich.text import Text

    if name in before and name in after and before[name] == after[name]:
        return Text(shown(after[name]), "" if name in key else SAME)
    text = Text()
    if name in before:
        text.append(shown(before[name]), OLD)
    text.append(ARROW, SAME)
    if name in after:
        text.append(shown(after[name]), NEW)
    return text
