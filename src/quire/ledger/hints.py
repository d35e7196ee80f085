"""The hint of a branch: where its head was lately, so that opening needs no search. It may be old, wrong or gone."""

from __future__ import annotations

from urllib.parse import quote

from quire.errors import FormatError
from quire.ledger.records import Hint, decode, encode
from quire.store import Store


def read_hint(store: Store, name: str) -> Hint | None:
    return parse_hint(store.get_or_none(hint_key(name)), name)


def parse_hint(body: bytes | None, name: str) -> Hint | None:
    """A hint may lie or be garbage: anything unreadable counts as no hint."""
    if body is None:
        return None
    try:
        return decode(body, Hint, hint_key(name))
    except FormatError:
        return None


def write_hint(store: Store, name: str, hint: Hint) -> None:
    store.put(hint_key(name), encode(hint))


def hint_key(name: str) -> str:
    return f"_quire/hint-{quote(name, safe='')}.json"
