"""Names that people give: tables, branches, tags, commits."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import quote

from quire.errors import BranchClosed, InvalidInput, InvalidName, TableNotFound, shown

_TABLE = re.compile(r"[^\W\d_][\w.:-]{0,199}|_[\w.:-]{1,199}")
_REF = re.compile(r"[\w][\w.-]*(/[\w][\w.-]*)*")
_COMMIT = re.compile(r"(\d{1,19})(?:\.(\d{1,9}))?")


def check_table(name: Any) -> str:
    """Letters, digits, `_ . : -`, starting with a letter or underscore."""
    if not isinstance(name, str) or not _TABLE.fullmatch(name):
        raise InvalidName(
            f"{name!r} is not a valid table name.",
            next="Use letters, digits and _ . : -, start with a letter or _, and use at most 200 characters.",
            name=str(name),
        )
    return name


def as_columns(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """One column name, several, or none."""
    return (given,) if isinstance(given, str) else tuple(given or ())


def check_ref(name: Any, what: str) -> str:
    """Like git: words joined by `/`."""
    # Names become object names, percent-encoded; local disks allow 255 bytes.
    fine = isinstance(name, str) and _REF.fullmatch(name) and ".." not in name and len(quote(name, safe="")) <= 200
    if fine and _COMMIT.fullmatch(name):
        raise InvalidName(
            f"{name!r} looks like a commit id, so it cannot be the name of a {what}.", next=f"Use v{name}.", name=name
        )
    if not fine:
        raise InvalidName(
            f"{name!r} is not a valid {what} name.",
            next="Use letters, digits and _ . -, with / between words, and at most 200 bytes when percent-encoded.",
            name=str(name),
        )
    return str(name)


RESERVED = ("HEAD",)


def fresh_ref(name: Any, what: str) -> str:
    """A name that a new branch or tag may have."""
    if check_ref(name, what) in RESERVED:
        raise InvalidName(f"{name!r} always means the newest commit.", next="Choose another name.", name=name)
    return str(name)


def is_ref(name: Any) -> bool:
    """Whether a branch or a tag may have this name."""
    try:
        check_ref(name, "branch")
    except InvalidName:
        return False
    return True


def parse_commit(text: Any) -> tuple[int, int]:
    """`12.0` or `12` as (slot, index)."""
    found = _COMMIT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidName(
            f"{text!r} is not a commit id.", next="Commit ids look like 12.0; `quire log` lists them.", name=str(text)
        )
    return int(found[1]), int(found[2] or 0)


def parse_time(value: Any) -> datetime:
    """A datetime, a date, or ISO text; without a zone it is UTC. A date alone means its end."""
    if isinstance(value, str):
        try:
            if re.fullmatch(r"\d{4}-\d\d-\d\d", value):
                value = date.fromisoformat(value)
            else:
                value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidInput(
                f"{value!r} is not a time.", next="Write 2026-11-01 or 2026-11-01T12:30:00Z.", time=value
            ) from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, 23, 59, 59, 999999)
    if not isinstance(value, datetime):
        raise InvalidInput(f"{shown(value)} is not a time.", next="Pass a datetime, a date or ISO 8601 text.")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def closed(name: str) -> BranchClosed:
    return BranchClosed(
        f"Branch {name!r} was deleted.", next="Create it again, or write to another branch.", branch=name
    )


def no_table(name: str, known: Iterable[str], where: str = "") -> TableNotFound:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        advice = f"Did you mean {near[0]!r}?"
    elif names:
        advice = f"The tables here are {', '.join(names[:20])}{', …' if len(names) > 20 else ''}."
    else:
        advice = "There are no tables here yet. Create one with create_table."
    return TableNotFound(f"There is no table {name!r}{where and f' {where}'}.", next=advice, table=name)
