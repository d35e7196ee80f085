"""What the rows of an input come from, as far as Python can see: iterators within iterators, and what they hold."""

from __future__ import annotations

import gc
import inspect
import itertools
import sys
import weakref
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

_TEE: Any = itertools.tee(())[0]
_PIPES = (
    *(map, filter, zip, enumerate, itertools.chain, itertools.starmap, itertools.accumulate, itertools.filterfalse),
    *(type(_TEE), type(gc.get_referents(_TEE)[0]), type(iter(()))),
    *([getattr(itertools, name) for name in ("pairwise", "batched") if hasattr(itertools, name)]),
)
"""Iterators that read others to their end."""
_PARTLY = (itertools.islice, itertools.takewhile, itertools.compress, itertools.zip_longest)
"""Iterators that may leave something of what they read to the next one."""
_STREAMS: weakref.WeakSet[Any] = weakref.WeakSet()
"""Arrow streams that were read by any program of this process: unlike other iterators, none ever goes on."""
_DEPTH, _LOOKED_AT, _SMALL = 6, 500, 100
"""How deep, at how many objects, and into how large containers is looked."""
_NO_SOURCE = (ModuleType, type, CodeType, FrameType, FunctionType, BuiltinFunctionType)


def pipes(data: Any) -> Iterator[tuple[Any, bool]]:
    """An input and the iterators that are read when it is read, each with whether it is read to its end."""
    seen: list[Any] = []
    waiting = [(data, True)]
    while waiting:
        one, whole = waiting.pop()
        if not any(one is known for known in seen):
            seen.append(one)
            waiting += [(inner, whole and type(one) not in _PARTLY) for inner in _read_by(one)]
            yield one, whole


def _read_by(one: Any) -> list[Any]:
    if isinstance(one, GeneratorType):
        # A generator expression reads what goes by this name. Of other variables only a generator that is finished is
        # sure to have been read; an iterator may have been given for anything else, such as numbers of rows.
        return [value for name, value in _variables(one).items() if name == ".0" or is_finished(value)]
    if type(one) in (*_PIPES, *_PARTLY):
        parts = [part for held in gc.get_referents(one) for part in (held if isinstance(held, tuple) else (held,))]
        return [part for part in parts if reads_once(part) or type(part) in _PIPES]
    if isinstance(one, Mapping):
        return [column for column in one.values() if reads_once(column)]
    return []


def _variables(one: GeneratorType[Any, Any, Any]) -> dict[str, Any]:
    return {} if one.gi_frame is None else dict(one.gi_frame.f_locals)


def held(data: Any) -> list[Any]:
    """Objects that an input may take rows from: what can be read once, wherever it is held, and what it holds itself.

    An Arrow stream holds what Python cannot see.
    """
    found: list[Any] = []
    seen: set[int] = set()
    waiting = [(data, 0)]
    while waiting and len(seen) < _LOOKED_AT:
        one, depth = waiting.pop(0)
        if id(one) in seen or _is_our_own(one):
            continue
        seen.add(id(one))
        if depth and (reads_once(one) or (depth == 1 and _may_have_rows(one))):
            found.append(one)
        if depth < _DEPTH:
            waiting += [(inner, depth + 1) for inner in _within(one)]
    return found


def _within(one: Any) -> list[Any]:
    if isinstance(one, GeneratorType):
        if one.gi_frame is None:
            return []
        known = [one.gi_frame.f_globals.get(name) for name in one.gi_code.co_names]
        return [*_variables(one).values(), *(value for value in known if reads_once(value))]
    if isinstance(one, FunctionType):
        cells = one.__closure__ or ()
        return [cell.cell_contents for cell in cells if cell != type(cell)()]
    if isinstance(one, _NO_SOURCE) or not gc.is_tracked(one):
        return []
    if hasattr(one, "__len__") and not (isinstance(one, dict | list | tuple | set) and len(one) <= _SMALL):
        return []
    return gc.get_referents(one)


def _may_have_rows(one: Any) -> bool:
    return gc.is_tracked(one) and not hasattr(one, "__len__") and not isinstance(one, _NO_SOURCE)


def _is_our_own(one: Any) -> bool:
    """Whether it is of this library: rows of a scan are as many as the transaction finds."""
    return str(getattr(type(one), "__module__", "")).partition(".")[0] == "quire"


def is_opaque(data: Any) -> bool:
    """Whether it may read from something that Python does not show."""
    return not _is_our_own(data) and hasattr(data, "__arrow_c_stream__")


def reads_once(data: Any) -> bool:
    """Whether it is gone once it was read."""
    return isinstance(data, Iterator) or is_stream(data)


def is_stream(data: Any) -> bool:
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(data, arrow.RecordBatchReader)


def was_read(stream: Any) -> None:
    """Note a stream that is read now."""
    _STREAMS.add(stream)


def is_finished(one: Any) -> bool:
    if inspect.isgenerator(one):
        return inspect.getgeneratorstate(one) == inspect.GEN_CLOSED
    return is_stream(one) and one in _STREAMS
