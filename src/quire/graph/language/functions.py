"""The functions of values: what they take and give. Null in gives null out, but for `coalesce`.

Texts are counted in characters, places in texts and lists from 0; what lies outside of them is left out. Times are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from quire.graph.types import Type

Takes = Literal["text", "whole", "date", "datetime", "time", "list", "texts", "any"]
Gives = Literal["String", "I64", "Date", "texts", "same", "item", "common"]

IN_WORDS: dict[Takes, str] = {
    "text": "a text",
    "whole": "a whole number",
    "date": "a Date",
    "datetime": "a DateTime",
    "time": "a Date or a DateTime",
    "list": "a list",
    "texts": "a list of texts",
    "any": "a value",
}


@dataclass(frozen=True)
class Function:
    """Kinds of arguments and of the result. The last `spare` may be left out; `open` takes more of the last."""

    takes: tuple[Takes, ...]
    gives: Gives
    spare: int = 0
    open: bool = False


FUNCTIONS: dict[str, Function] = {
    "lower": Function(("text",), "String"),
    "upper": Function(("text",), "String"),
    "trim": Function(("text",), "String"),  # of spaces
    "length": Function(("text",), "I64"),
    "substring": Function(("text", "whole", "whole"), "String", spare=1),  # text, first place, how many
    "replace": Function(("text", "text", "text"), "String"),
    "concat": Function(("text", "text"), "String", open=True),
    "split": Function(("text", "text"), "texts"),
    "join": Function(("texts", "text"), "String"),
    "year": Function(("time",), "I64"),
    "month": Function(("time",), "I64"),
    "day": Function(("time",), "I64"),
    "weekday": Function(("time",), "I64"),  # 1 is Monday
    "hour": Function(("datetime",), "I64"),
    "minute": Function(("datetime",), "I64"),
    "second": Function(("datetime",), "I64"),
    "date": Function(("datetime",), "Date"),
    "add_days": Function(("time", "whole"), "same"),
    "days_between": Function(("date", "date"), "I64"),  # from the first to the second
    "size": Function(("list",), "I64"),
    "first": Function(("list",), "item"),
    "last": Function(("list",), "item"),
    "item": Function(("list", "whole"), "item"),
    "slice": Function(("list", "whole", "whole"), "same", spare=1),  # list, first place, how many
    "sorted": Function(("list",), "same"),
    "reverse": Function(("list",), "same"),
    "coalesce": Function(("any", "any"), "common", open=True),
}


def fits(kind: Type, wanted: Takes) -> bool:
    """Whether a value of a type may be given for an argument."""
    match wanted:
        case "text":
            return kind.is_text
        case "whole":
            return kind.is_integer
        case "date" | "datetime":
            return kind.is_time and (kind.base == "Date") == (wanted == "date")
        case "time":
            return kind.is_time
        case "list":
            return kind.many
        case "texts":
            return kind.many and kind.base in ("String", "enum")
        case "any":
            return kind.base not in ("Vector", "Blob")


def common(kinds: list[Type]) -> Type | None:
    """The type that holds values of all types: whole numbers are I64, with a float all numbers are F64. None where
    there is none."""
    first = kinds[0].required
    if all(kind.required == first for kind in kinds):
        return first
    if all(kind.is_integer for kind in kinds):
        unsigned = [kind.base in ("U32", "U64") for kind in kinds]
        if "U64" in {kind.base for kind in kinds}:
            return Type("U64") if all(unsigned) else None
        return Type("I64")
    if all(kind.is_number for kind in kinds):
        return Type("F64")
    if all(kind.is_text for kind in kinds):
        return Type("String")
    if all(kind.many for kind in kinds):
        items = [Type(kind.base, values=kind.values) for kind in kinds]
        return Type("String", many=True) if all(item.is_text for item in items) else None
    return None
