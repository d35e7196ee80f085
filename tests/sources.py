"""The modules of Quire as trees, for tests of what may stand in them. They are parsed once."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "quire"


@functools.cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """By path below the package, in order."""
    return tuple(
        (path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text("utf-8"), str(path)))
        for path in sorted(SOURCE.rglob("*.py"))
    )
