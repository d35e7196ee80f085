"""Stored structs: they come back as they were, and nothing but a typed error comes out of bytes that are not one."""

from __future__ import annotations

import types
import typing
from datetime import UTC, datetime
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget

from quire.errors import CorruptRecord, FormatError, NewerFormat
from quire.ledger import (
    FORMAT,
    Change,
    Commit,
    Floor,
    FormatFile,
    Hint,
    Line,
    Pin,
    Point,
    Read,
    Record,
    Ref,
    Segment,
    State,
    decode,
    encode,
)
from quire.ledger.offers import ROW_OPS, SPAN, Offer
from quire.ledger.records import NEWEST, Stored, seal
from quire.ledger.requests import StoredRequest
from quire.testing.ledger import make_full_record, make_record


def every_struct(base: type = Stored) -> list[type[Any]]:
    found = [c for c in base.__subclasses__() if c.__module__.startswith("quire.ledger")]
    return sorted({*found, *(deep for c in found for deep in every_struct(c))}, key=lambda c: c.__name__)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
moments = st.datetimes(datetime(1970, 1, 1), datetime(9000, 12, 30), timezones=st.just(UTC))


def line(slots: set[int]) -> Line:
    """Stretches of other logs, one after the other, then its own."""
    inherited = tuple(Segment(f"log {slot}", slot, 1) for slot in sorted(slots))
    return Line("own", inherited)


lines = st.sets(st.integers(0, 10**18), max_size=3).map(line)
refs = st.one_of(
    st.builds(Ref, format=st.just(FORMAT), write=text, kind=st.just("gone"), name=text, author=text, time=moments),
    st.builds(
        lambda at, when: Ref(FORMAT, "w", "branch", "b", "a", when, line=line(at), target=Point("x", 1)),
        st.sets(st.integers(0, 10**18), min_size=1, max_size=3),
        moments,
    ),
    moments.map(lambda when: Ref(FORMAT, "w", "tag", "t", "a", when, line=line({3}), target=Point("x", 1))),
)
offers = st.builds(
    lambda base, span, pin, op, text, when: Offer(
        format=FORMAT,
        branch=text,
        base=base,
        previous=text,
        until=base + span,
        epoch=base,
        commit=Commit(
            write=text,
            time=when,
            author=text,
            message=text,
            changes=(Change(table=text, name=text, ops=(op,), pin=pin, added=span),),
            reads=(Read(kind="table", table=text),),
        ),
        needs={text: pin.version},
        additions={text: text} if op in ("append", "insert") else {},
        note=text,
    ),
    st.integers(0, 10**17),
    st.integers(1, SPAN),
    st.deferred(lambda: values_of(Pin)),
    st.sampled_from(sorted(ROW_OPS)),
    text,
    moments,
)
records = st.one_of(
    st.builds(
        Record,
        format=st.just(FORMAT),
        branch=text,
        slot=st.integers(0, 10**18),
        write=text,
        previous=text,
        time=moments,
        kind=st.sampled_from(["commits", "closed", "claim", "tombstone"]),
        epoch=st.integers(0, 10**18),
        checkpoint=st.none() | st.deferred(lambda: values_of(Point)),
        commits=st.lists(st.deferred(lambda: values_of(Commit)), max_size=2).map(tuple),
        side=st.none() | text,
    ),
    st.builds(
        lambda at, when: Record(FORMAT, "b", at + 1, "w", "p", when, "floor", floor=Floor(at, when, ("x",))),
        st.integers(0, 10**17),
        moments,
    ),
)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value that a field of this type may have."""
    if kind is Line:
        return lines
    if kind is Record:
        return records
    if kind is Ref:
        return refs
    if kind is Offer:
        return offers
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        fields = {name: st.deferred(lambda h=h: values_of(h)) for name, h in hints.items()}
        if kind is StoredRequest:  # it is merged by a commit, or not at all
            merged = fields | {"state": st.just("merged"), "merged": values_of(Point)}
            return st.builds(kind, **fields | {"state": st.sampled_from(["open", "closed"]), "merged": st.none()}) | (
                st.builds(kind, **merged)
            )
        return st.builds(kind, **fields)
    origin, args = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        return values_of(args[0])
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(a) for a in args])
    if origin is tuple and args[1:] == (...,):
        return st.lists(values_of(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*[values_of(a) for a in args])
    if origin is dict:
        return st.dictionaries(values_of(args[0]), values_of(args[1]), max_size=2)
    plain = {
        str: text,
        int: st.integers(0, 10**18),
        float: st.floats(0, 10**8),
        bool: st.booleans(),
        datetime: moments,
        type(None): st.none(),
    }
    return plain[kind]


@pytest.mark.parametrize("kind", every_struct(), ids=lambda k: k.__name__)
def test_every_struct_comes_back_as_it_was(kind: type[Any]) -> None:
    @settings(max_examples=budget(12, full=25))
    @given(values_of(kind))
    def check(value: Any) -> None:
        if isinstance(getattr(value, "format", None), int):
            value = msgspec.structs.replace(value, format=FORMAT)
        back = msgspec.json.decode(encode(value), type=kind)
        assert back == value
        assert encode(back) == encode(value)

    check()


def test_the_structs_that_are_tested_are_all_there_are() -> None:
    names = {kind.__name__ for kind in every_struct()}
    assert {"Record", "Commit", "Change", "Pin", "State", "Ref", "Line", "Hint", "FormatFile", "SideObject"} <= names


def test_a_field_that_is_not_known_is_ignored() -> None:
    record = make_record("b", 0)
    raw = msgspec.json.decode(encode(record))
    raw["invented later"] = {"a": [1]}
    raw["commits"][0]["mood"] = "good"
    del raw["sum"]
    assert decode(seal(msgspec.json.encode(raw)), Record, "here") == record


# -- what is not a record ----------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=12,
)
KINDS = [Record, State, Ref, Hint, FormatFile]
whole = [encode(make_full_record("b", 3)), encode(make_record("b", 0))]


def check_only_format_errors(data: bytes) -> None:
    for kind in KINDS:
        failure = None
        try:
            assert isinstance(decode(data, kind, "some/object"), kind)
        except FormatError as error:
            failure = error
        assert failure is None or (failure.object == "some/object" and "some/object" in str(failure))


@given(st.binary(max_size=200) | text.map(str.encode) | json_values.map(msgspec.json.encode))
def test_any_bytes_are_a_value_or_a_format_error(data: bytes) -> None:
    check_only_format_errors(data)


@given(st.sampled_from(whole), st.data())
def test_a_damaged_record_is_a_value_or_a_format_error(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - 1))
    until = draw.draw(st.integers(at, min(len(data), at + 20)))
    check_only_format_errors(data[:at] + draw.draw(st.binary(max_size=6)) + data[until:])


@given(st.sampled_from(whole), json_values, st.data())
def test_a_record_with_a_value_of_the_wrong_type_is_a_value_or_a_format_error(
    data: bytes, value: Any, draw: st.DataObject
) -> None:
    raw = msgspec.json.decode(data)
    place: Any = raw
    while True:
        key = draw.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inside = place[key]
        if not isinstance(inside, dict | list) or not inside or draw.draw(st.booleans()):
            break
        place = inside
    place[key] = value
    check_only_format_errors(msgspec.json.encode(raw))


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000,
        b'{"format":1,"commits":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"x":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"format":1,"slot":' + b"9" * 10_000 + b"}",
        b'{"format":' + b"9" * 10_000 + b"}",
        b'{"format":1e400}',
        b'{"format":-1}',
        b'{"format":"1"}',
        b'{"format":null}',
        b'{"format":true}',
        b'{"format":1,"format":2}',
        b'{"format":1,"time":"never"}',
        b'{"format":1}{"format":1}',
    ],
    ids=lambda data: data[:30].decode(),
)
def test_a_hostile_document_is_a_format_error(data: bytes) -> None:
    for kind in (Record, State, Ref, FormatFile):
        with pytest.raises(FormatError):
            decode(data, kind, "some/object")


@pytest.mark.parametrize("number", [NEWEST + 1, 99, 10**30, 10**4000], ids=["next", "99", "10^30", "10^4000"])
def test_a_newer_format_is_told_apart_from_garbage(number: int) -> None:
    for kind in (Record, State, Ref, FormatFile):
        with pytest.raises(NewerFormat) as caught:
            decode(b'{"format":' + str(number).encode() + b"}", kind, "some/object")
        error = caught.value
        assert (error.object, error.found, error.supported) == ("some/object", number, NEWEST)
        assert error.message == f"some/object has format {number}; this version of Quire reads formats up to {NEWEST}."
        assert error.next == "Upgrade Quire on this machine. The lake itself is fine."


def test_a_corrupt_record_says_what_is_wrong_and_what_to_do() -> None:
    with pytest.raises(CorruptRecord) as caught:
        decode(b'{"format":1,"branch":7}', Record, "_quire/log/b/0")
    assert caught.value.message.startswith("_quire/log/b/0 cannot be used: it is not a valid Record: ")
    assert "$.branch" in caught.value.reason
    assert "Restore this object from a backup" in str(caught.value)


def test_a_time_without_a_zone_is_corrupt() -> None:
    # Times are compared with one another and with the caller's; one without a zone cannot be.
    data = encode(make_record("b", 0))
    zoneless = data.replace(b'"time":"2026-01-01T00:00:00Z"', b'"time":"2026-01-01T00:00:00"')
    assert zoneless != data
    with pytest.raises(CorruptRecord):
        decode(zoneless, Record, "here")
