"""Names in the languages: which are allowed, and which one was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

TYPE = re.compile(r"[A-Z][A-Za-z0-9_]*")
NAME = re.compile(r"[a-z_][A-Za-z0-9_]*")

LANCE = ("_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version")
"""Columns of Lance's own, which no property may be named after."""

LONGEST = 128


def nearest(name: str, known: Iterable[str]) -> str:
    """`Did you mean …?`, or nothing when no name is near."""
    folded = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f"Did you mean {folded[found[0]]!r}?" if found else ""
