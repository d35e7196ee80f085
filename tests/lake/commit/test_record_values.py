"""What callers give to be kept in a record is stored as it was given, or refused before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget

import quire
from quire.errors import InvalidInput, InvalidName, InvalidToken, QuireError
from quire.ledger import FORMAT, Hint, Record, encode
from quire.store import Store
from quire.testing.ledger import EPOCH, make_record

HALF = "half \ud800 a character"


def fresh() -> quire.Lake:
    lake = quire.create(f"memory://{uuid.uuid4().hex}", author="ada")
    lake.create_table("t", [{"id": 1}], key="id")
    return lake


def objects(lake: quire.Lake) -> dict[str, bytes]:
    """Everything of the ledger but hints, which come and go by themselves."""
    store: Store = lake._core.store
    return {e.key: store.get(e.key) for e in store.list("_quire") if "hint" not in e.key}


# -- the law: what is accepted comes back ------------------------------------------------------------------------------

anything = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.just(HALF)
    | st.binary(max_size=5)
    | st.lists(st.text(max_size=3), max_size=2)
)
texts = st.text(max_size=30) | anything
metadata = st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20), max_size=3) | anything
tokens = (
    st.builds(quire.StreamToken, texts, st.integers(0, 2**65) | anything)
    | st.builds(lambda n: f"qt-{n:012x}-{'a' * 16}", st.integers(0, 2**48 - 1))
    | st.builds(lambda at: f"qt-{int(at.timestamp() * 1000):012x}-{'b' * 16}", st.datetimes(datetime(1970, 1, 2)))
    | anything
)


def reopened(lake: quire.Lake) -> quire.Lake:
    return quire.open(lake.uri, backfill=False)


@settings(max_examples=budget(20, full=60), deadline=None)
@given(message=texts, author=texts, metadata=metadata, token=st.none() | tokens)
def test_a_commit_says_what_its_maker_gave_or_is_refused(message: Any, author: Any, metadata: Any, token: Any) -> None:
    lake = fresh()
    before = objects(lake)
    try:
        with lake.transaction(message, author=author, metadata=metadata, token=token) as tx:
            tx["t"].append([{"id": 2}])
    except InvalidInput:
        assert objects(lake) == before
        return
    found = reopened(lake).log()[0]
    assert (found.message, found.author, found.metadata) == (message, author or "ada", metadata or {})
    if isinstance(token, quire.StreamToken):
        assert found.token == f"{token.scope}:{token.sequence}"
    else:
        assert found.token == token
    assert reopened(lake)["t"].count() == 2


@settings(max_examples=budget(15, full=40), deadline=None)
@given(rules=texts, flag=anything)
def test_a_table_keeps_the_rules_it_was_given_or_they_are_refused(rules: Any, flag: Any) -> None:
    lake = fresh()
    before = objects(lake)
    try:
        with lake.transaction() as tx:
            tx.create_table("u", [{"id": 1}], rules=rules, stable_row_ids=flag)
            tx["t"].set_rules(rules)
    except InvalidInput:
        assert objects(lake) == before
        assert not (isinstance(rules, str) and rules != HALF and isinstance(flag, bool))
        return
    infos = {t.info.name: t.info for t in reopened(lake)._live.state.tables.values()}
    assert {name: info.rules for name, info in infos.items()} == {"t": rules, "u": rules}
    assert infos["u"].stable_row_ids is flag


@settings(max_examples=budget(20, full=60), deadline=None)
@given(name=st.text(max_size=12) | st.from_regex(r"[a-z]{1,5}(/[a-z.]{1,4})?", fullmatch=True) | anything, said=texts)
def test_a_tag_says_what_its_maker_gave_or_is_refused(name: Any, said: Any) -> None:
    lake = fresh()
    before = objects(lake)
    try:
        lake.tag(name, message=said)
    except InvalidInput:
        assert objects(lake) == before
        return
    found = reopened(lake).tags()[name]
    assert (found.commit, found.message, found.author) == ("1.0", said or "", "ada")
    assert reopened(lake).at(tag=name).commit == "1.0"


# -- each refusal names what it is about -------------------------------------------------------------------------------

LONG = "x" * (1 << 21)
REFUSED: dict[str, tuple[Callable[[quire.Lake], Any], type[QuireError], str]] = {
    "a message that is a number": (lambda lake: lake.transaction(7), InvalidInput, "message"),  # type: ignore[arg-type]
    "a message without end": (lambda lake: lake.transaction(LONG), InvalidInput, "message"),
    "half a character": (lambda lake: lake.transaction(HALF), InvalidInput, "message"),
    "an author that is a number": (lambda lake: lake.transaction(author=5), InvalidInput, "author"),  # type: ignore[arg-type]
    "an author without end": (lambda lake: lake.transaction(author=LONG), InvalidInput, "author"),
    "an opener that is a number": (lambda lake: quire.open(lake.uri, author=5), InvalidInput, "author"),  # type: ignore[arg-type]
    "a maker that is a number": (
        lambda lake: quire.create(f"{lake.uri}/x", author=5),  # type: ignore[arg-type]
        InvalidInput,
        "author",
    ),
    "metadata that is a text": (lambda lake: lake.transaction(metadata="job"), InvalidInput, "metadata"),  # type: ignore[arg-type]
    "metadata with a number": (
        lambda lake: lake.transaction(metadata={"job": 42}),  # type: ignore[dict-item]
        InvalidInput,
        "metadata 'job'",
    ),
    "metadata with an endless value": (
        lambda lake: lake.transaction(metadata={"a": LONG}),
        InvalidInput,
        "metadata 'a'",
    ),
    "metadata without a key": (lambda lake: lake.transaction(metadata={"": "x"}), InvalidInput, "metadata"),
    "too much metadata": (
        lambda lake: lake.transaction(metadata={str(n): "" for n in range(65)}),
        InvalidInput,
        "metadata",
    ),
    "a position beyond the last": (
        lambda lake: lake.transaction(token=quire.StreamToken("s", 2**62 + 1)),
        InvalidToken,
        "token",
    ),
    "a position that is true": (
        lambda lake: lake.transaction(token=quire.StreamToken("s", True)),
        InvalidToken,
        "token",
    ),
    "a scope that is a number": (
        lambda lake: lake.transaction(token=quire.StreamToken(5, 1)),  # type: ignore[arg-type]
        InvalidToken,
        "scope of the token",
    ),
    "a token of the far future": (
        lambda lake: lake.transaction(token=f"qt-ffffffffffff-{'0' * 16}"),
        InvalidToken,
        "token",
    ),
    "a token of next year": (lambda lake: lake.transaction(token=_minted(2027)), InvalidToken, "token"),
    "a token of the far past": (lambda lake: lake.transaction(token=_minted(1980)), InvalidToken, "token"),
    "a message of a tag that is a number": (
        lambda lake: lake.tag("v", message=5),  # type: ignore[arg-type]
        InvalidInput,
        "message of the tag",
    ),
    "a revert without end": (lambda lake: lake.revert("1.0", LONG), InvalidInput, "message"),
}


def _minted(year: int) -> str:
    later = datetime.now(UTC).year - 2026
    return f"qt-{int(datetime(year + max(later, 0), 1, 1, tzinfo=UTC).timestamp() * 1000):012x}-{'0' * 16}"


@pytest.mark.parametrize("kind", REFUSED)
def test_a_value_that_cannot_be_kept_is_refused_by_name_and_nothing_is_written(kind: str) -> None:
    lake = fresh()
    lake.flush()
    before = objects(lake)
    call, error, field = REFUSED[kind]
    with pytest.raises(error) as caught:
        call(lake)
    told = caught.value.fields
    assert told.get("field") == field or field.startswith(told["argument"])
    assert caught.value.next
    assert objects(lake) == before


def test_a_tag_is_not_named_like_the_newest_commit() -> None:
    lake = fresh()
    with pytest.raises(InvalidName):
        lake.tag("HEAD")
    with pytest.raises(InvalidName):
        lake.create_branch("HEAD")


def test_a_member_of_a_group_that_cannot_be_stored_fails_alone() -> None:
    """Whatever a check at a verb should miss is found before the slot is written."""
    lake = fresh()
    with lake.transaction("good") as good:
        good["t"].append([{"id": 2}])
    bad = lake.transaction("bad")
    bad["t"].append([{"id": 3}])
    bad.metadata = {"job": 5}  # type: ignore[dict-item]
    with pytest.raises(InvalidInput, match="Nothing was written"):
        bad.commit()
    with lake.transaction("after") as after:
        after["t"].append([{"id": 3}])
    assert [c.message for c in reopened(lake).log()][:2] == ["after", "good"]


# -- the one place where bytes are made --------------------------------------------------------------------------------

UNREADABLE = {
    "a number below zero": lambda: Hint(branch="b", head=-1),
    "a number without end": lambda: Record(FORMAT, "b", 10**30, "w", "p", EPOCH),
    "a text that is a number": lambda: make_record("b", 1, previous=7),
    "an unknown kind": lambda: make_record("b", 1, kind="sonnet"),
    "half a character": lambda: make_record("b", 1, previous=HALF),
    "a time without a zone": lambda: Record(FORMAT, "b", 1, "w", "p", EPOCH.replace(tzinfo=None)),
    "what msgspec cannot write": lambda: make_record("b", 1, previous=object()),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_bytes_that_no_reader_would_accept_are_never_made(kind: str) -> None:
    with pytest.raises(InvalidInput, match="Nothing was written"):
        encode(UNREADABLE[kind]())


def test_metadata_is_kept_shown_and_searched_for() -> None:
    lake = fresh()
    with lake.transaction("job", metadata={"job": "42", "host": "a b"}) as tx:
        tx["t"].append([{"id": 2}])
    lake.revert("2.0", metadata={"why": "test"})
    lake.transact(lambda tx: tx["t"].append([{"id": 5}]), metadata={"job": "43"})
    found = list(reopened(lake).log())
    assert [c.metadata for c in found] == [{"job": "43"}, {"why": "test"}, {"job": "42", "host": "a b"}, {}, {}]
    assert found[2].to_dict()["metadata"] == {"job": "42", "host": "a b"}
    assert reopened(lake).show("2.0").metadata["job"] == "42"
