"""How much an answer holds: a model reads it, so it is small, and says when something was left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quire.rowfiles.write import to_json

LONGEST_VALUE = 2_000
"""Characters of one text, where a row alone is too large."""


@dataclass(frozen=True)
class Bounds:
    """Of one answer, and of the work for it."""

    rows: int = 100
    characters: int = 50_000
    seconds: float = 20.0
    memory: int = 512 << 20


def fitted(answer: dict[str, Any], lists: tuple[str, ...], bounds: Bounds) -> dict[str, Any]:
    """An answer whose lists are cut until it fits; `truncated` says whether something was left out."""
    answer.setdefault("truncated", False)
    for name in lists:
        if len(answer[name]) > bounds.rows:
            answer[name], answer["truncated"] = answer[name][: bounds.rows], True
    while _size(answer) > bounds.characters:
        answer["truncated"] = True
        longest = max(lists, key=lambda name: len(answer[name]), default=None)
        if longest is not None and len(answer[longest]) > 1:
            answer[longest] = answer[longest][: len(answer[longest]) // 2]
            continue
        short = {name: _shortened(value, LONGEST_VALUE) for name, value in answer.items()}
        if _size(short) > bounds.characters:
            short = {name: _shortened(value, 100, most=20) for name, value in answer.items()}
        return short
    return answer


def _size(value: Any) -> int:
    return len(to_json(value))


def _shortened(value: Any, longest: int, most: int = 1_000) -> Any:
    if isinstance(value, str) and len(value) > longest:
        return f"{value[:longest]}… ({len(value) - longest} more characters)"
    if isinstance(value, dict):
        return {name: _shortened(one, longest, most) for name, one in list(value.items())[:most]}
    return [_shortened(one, longest, most) for one in value[:most]] if isinstance(value, list) else value
