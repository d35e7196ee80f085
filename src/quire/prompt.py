"""What objects show of themselves at a prompt and in a notebook: one bounded line, escaped, and their public names.

Classes that are previews of data (tables, rows, logs, differences, plans, catalogs) show more than a line, see
`quire.lake.display`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

LONGEST = 160
"""Characters of a line."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def clean(text: str) -> str:
    """Text that cannot move the cursor or break the line."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """Text in angle brackets as one line, cut where it is too long."""
    text = clean(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]}…{text[-1]}"


def counted(number: int, what: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def counts(of: Mapping[str, int]) -> str:
    """`Person 2, Knows 1`."""
    return ", ".join(f"{name} {number:,}" for name, number in of.items())


class Escaped:
    """Shows its `repr` in a notebook, escaped."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<code>{escape(repr(self))}</code>"


class OneLine(Escaped):
    """Shows itself as `<Name: facts>`."""

    __slots__ = ()

    def _facts(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return one_line(f"<{type(self).__name__}: {self._facts()}>")


class PublicNames:
    """Shows in `dir` and in completion what programs may use, and nothing else."""

    __slots__ = ()
    _unlisted: ClassVar[frozenset[str]] = frozenset()
    """Public names that are for engines and validators rather than for programs."""

    def __dir__(self) -> list[str]:
        return sorted(name for name in super().__dir__() if not name.startswith("_") and name not in self._unlisted)
