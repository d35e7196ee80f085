"""Hostile input: what a lake does when somebody, or a bad disk, has been at its stored objects.

Two kinds of change are made to the bytes of a stored object, each with a name that tells what was done:

`damage`      what happens to bytes: cut, flipped, zeroed, swapped, padded, not UTF-8, not JSON
`forgeries`   what an adversary writes: sound JSON with a hostile value in every place (paths that climb, huge and
              negative numbers, times at the ends of the calendar, wrong types, deep nesting, long lists)

and `attempt` runs an operation on a lake that holds one, under a limit of time and memory:

    sound = quire.open(uri).snapshot()["people"].to_pylist()
    for change in damage(slot.read_bytes()):
        slot.write_bytes(change.body)
        with watched(scratch, lake) as touched:
            told = attempt(lambda: quire.open(uri).snapshot()["people"].to_pylist())
        assert told.problem is None, (change.name, told.problem)
        assert told.error or told.answer == sound
        assert not touched

An operation may answer, or raise a `QuireError` that says what to do next. Anything else is a problem: another
exception, a hang, memory without bound. `watched` tells of files beside the lake that were touched. Damage must never
change an answer; a forged record may mean something else than the sound one, so there any answer will do.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from quire.errors import QuireError
from quire.ledger import records

SECONDS = 20
"""How long one operation may take before it counts as a hang."""
MEMORY = 3 << 29
"""How many bytes of address space operations may ask for on top of what the process has."""


@dataclass(frozen=True)
class Change:
    """A stored object's bytes after something was done to them."""

    name: str
    body: bytes = field(repr=False)


# -- damage -------------------------------------------------------------------------------------------------------


def damage(body: bytes, *, seed: int = 0, flips: int = 8) -> Iterator[Change]:
    """What a disk, a cut connection or a careless tool does to bytes."""
    middle = len(body) // 2
    yield Change("empty", b"")
    yield Change("one byte", body[:1])
    yield Change("first half", body[:middle])
    yield Change("last byte cut", body[:-1])
    yield Change("second half", body[middle:])
    yield Change("all zero", bytes(len(body)))
    yield Change("half zero", body[:middle] + bytes(len(body) - middle))
    yield Change("zero at the end", body + b"\0")
    yield Change("twice", body + body)
    yield Change("byte order mark", b"\xef\xbb\xbf" + body)
    yield Change("utf-16", body.decode(errors="replace").encode("utf-16"))
    yield Change("not utf-8", body.replace(b'":"', b'":"\xff\xfe\xc3', 1))
    yield Change("lone surrogate", body.replace(b'":"', b'":"\\ud800', 1))
    yield Change("not JSON", b"Error 503: slow down\n")
    yield Change("html", b"<html><body>302 Found</body></html>")
    yield Change("null", b"null")
    yield Change("list", b"[" + body + b"]")
    yield Change("nested lists", b"[" * 200_000 + b"]" * 200_000)
    yield Change("nested objects", b'{"commits":' * 100_000 + b"1" + b"}" * 100_000)
    chooser = random.Random(seed)
    for _ in range(flips):
        yield flip(body, chooser)


def flip(body: bytes, chooser: random.Random) -> Change:
    """One flipped bit."""
    at, bit = chooser.randrange(max(1, len(body))), chooser.randrange(8)
    changed = bytearray(body or b"\0")
    changed[at] ^= 1 << bit
    return Change(f"bit {bit} of byte {at}", bytes(changed))


# -- forgeries ----------------------------------------------------------------------------------------------------

OUTSIDE = "outside"
"""Name of the folder beside a lake that nobody may touch."""

STRINGS: tuple[str, ...] = (
    "",
    ".",
    "..",
    f"../{OUTSIDE}",
    f"../{OUTSIDE}/secret.lance",
    f"x/../../{OUTSIDE}/secret.lance",
    f"../../{OUTSIDE}",
    "..\\outside",
    "%2e%2e%2foutside",
    "/",
    "/proc/self/environ",
    "//host/share",
    "file:///proc/self",
    "file://../outside",
    "memory://elsewhere",
    "http://127.0.0.1:9/x",
    "no-such-scheme://x",
    "zero\0byte",
    "new\nline",
    "\x1b[2J",
    "\u202e",
    "x" * 300,
    "x" * 70_000,
    "-1",
    "9" * 25,
    "9" * 5000,
    "1e9",
    "nan",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59.999999-23:59",
    "0001-01-01T00:00:00+23:59",
    "2026-02-30T00:00:00Z",
    "2026-01-01T00:00:00",
)
NUMBERS: tuple[int, ...] = (-1, 0, 1, 3, -(2**63), 2**31, 2**53 + 1, 10**9, 10**18, 2**63 - 1, 2**63, 2**64, 10**30)
OTHERS: tuple[Any, ...] = (None, True, 1.5, 1e308, "text", 7, [], {}, [[]], [None], {"a": {"b": {}}})


def forgeries(body: bytes) -> Iterator[Change]:
    """Sound JSON objects that hold one hostile thing each. Elements of a list stand for each other: one is changed."""
    body = _unsealed(body)
    document = json.loads(body)
    for path in _places(document):
        where, value = ".".join(map(str, path)), _at(document, path)
        for hostile in _hostile(value):
            yield _forged(f"{where} = {_short(hostile)}", document, path, hostile)
        yield _forged(f"{where} left out", document, path, _ABSENT)
        if isinstance(value, list) and value:
            yield _forged(f"{where} a thousand times", document, path, value * 1000)
            yield _forged(f"{where} backwards", document, path, value[::-1])
    yield Change("unknown fields", seal(json.dumps({**document, "next": {"a": [1]}, "$type": "x"}).encode()))
    for name, value in document.items():
        other = {"format": 1, "slot": 0, "kind": "genesis"}.get(name, "twice" if isinstance(value, str) else None)
        doubled = body.rstrip()[:-1] + b"," + json.dumps(name).encode() + b":" + json.dumps(other).encode() + b"}"
        yield Change(f"{name} given twice", seal(doubled))
    yield Change("10 MB of padding", seal(json.dumps({**document, "padding": "x" * 10_000_000}).encode()))
    for text in ("NaN", "Infinity", "-Infinity", "1e400", "-0", "0x10", "1" * 100_000):
        for path in _places(document):
            if isinstance(_at(document, path), int):
                hole = _forged("", document, path, "@@", sealed=False).body
                yield Change(f"{'.'.join(map(str, path))} = {text[:12]}", seal(hole.replace(b'"@@"', text.encode())))
                break


def forge(body: bytes, changes: Mapping[str, Any]) -> bytes:
    """A stored object with other values in places named by dotted paths ("commits.0.changes.0.pin.location")."""
    document = json.loads(_unsealed(body))
    for where, value in changes.items():
        path = tuple(int(part) if part.isdigit() else part for part in where.split("."))
        _set(document, path, value)
    return seal(json.dumps(document).encode())


def seal(body: bytes) -> bytes:
    """A JSON object as the library would store it: with its checksum, so that what lies behind that check is met."""
    return records.seal(body)


def _unsealed(body: bytes) -> bytes:
    """An object of a format that has checksums without its own, so that a new one can be given to it."""
    return records.unseal(body) or body


_ABSENT = object()


def _hostile(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        yield from STRINGS
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from NUMBERS
    yield from (other for other in OTHERS if type(other) is not type(value) or not other)


def _places(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    if isinstance(node, dict):
        for name in node:
            yield from _places(node[name], (*path, name))
    elif isinstance(node, list) and node:
        yield from _places(node[0], (*path, 0))


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def _set(document: Any, path: tuple[str | int, ...], value: Any) -> None:
    owner = _at(document, path[:-1])
    if value is _ABSENT:
        del owner[path[-1]]
    else:
        owner[path[-1]] = value


def _forged(name: str, document: Any, path: tuple[str | int, ...], value: Any, *, sealed: bool = True) -> Change:
    changed = copy.deepcopy(document)
    _set(changed, path, value)
    body = json.dumps(changed).encode()
    return Change(name, seal(body) if sealed else body)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:20]}… ({len(text)})"


# -- limits -------------------------------------------------------------------------------------------------------


class Hang(BaseException):
    """An operation took longer than it may. No handler for ordinary errors catches it."""


@contextlib.contextmanager
def limited(seconds: int = SECONDS, memory: int = MEMORY) -> Iterator[None]:
    """Give a block only so much time and so much more memory. In the main thread of a process on POSIX."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang(f"It did not end within {seconds} s.")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = _address_space()
    before = signal.signal(signal.SIGALRM, ring)
    began = time.monotonic()
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    if size:
        resource.setrlimit(resource.RLIMIT_AS, (size + memory, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # somebody else's alarm, such as a test runner's, goes on
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left - (time.monotonic() - began)))


def _address_space() -> int:
    """Bytes this process has mapped; 0 where that cannot be told, and then memory is not limited."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


_watched: list[tuple[str, str, set[str]]] = []
_hooked = False


@contextlib.contextmanager
def watched(scratch: str, lake: str) -> Iterator[set[str]]:
    """Collect the paths that Python code touches below `scratch` but outside `lake`, or by climbing out of `lake`."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked = True
    touched: set[str] = set()
    _watched.append((scratch, lake, touched))
    try:
        yield touched
    finally:
        _watched.pop()


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _watched or not (event == "open" or event.startswith("os.")):
        return
    scratch, lake, touched = _watched[-1]
    for argument in args[:2]:
        if not isinstance(argument, str) or not argument.startswith(scratch):
            continue
        real = os.path.normpath(argument)
        if real != lake and not real.startswith(lake + os.sep) and not lake.startswith(real):
            touched.add(argument)


# -- attempts -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What an operation did: it answered, it refused, or neither in order."""

    answer: Any = None
    error: QuireError | None = None
    problem: str | None = None


def attempt(call: Callable[[], Any], *, seconds: int = SECONDS, memory: int = MEMORY) -> Told:
    """Run an operation, and say whether it ended as it may."""
    try:
        with limited(seconds, memory):
            return Told(answer=call())
    except QuireError as error:
        if not error.next:
            return Told(error=error, problem=f"{type(error).__name__} does not say what to do next: {error}")
        return Told(error=error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic in native code is no Exception
        return Told(problem=f"{type(error).__name__}: {str(error)[:300]} at {_origin(error)}")


def _origin(error: BaseException) -> str:
    """The deepest frame of the library that an exception passed through."""
    place, trace = "unknown", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if f"{os.sep}quire{os.sep}" in file and not file.endswith("hostile.py"):
            place = f"{file.rpartition(os.sep + 'quire' + os.sep)[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
