"""A multipart body means the same however it is cut on its way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.web import multipart

from quire.errors import InvalidInput
from quire.server.multipart import Parts, boundary_of

BODIES = st.lists(
    st.tuples(
        st.text("ab", min_size=1, max_size=3),
        st.one_of(
            st.binary(max_size=40), st.sampled_from([b"\r\n--frontie", b"\r\n--frontierX"[:-2], b"--frontier", b"\r\n"])
        ),
    ),
    min_size=1,
    max_size=4,
)


def cut(body: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(body), size):
        yield body[at : at + size]


def read(body: bytes, size: int) -> list[tuple[str, bytes]]:
    parts = Parts(cut(body, size), b"frontier")
    found = []
    while (part := parts.next()) is not None:
        found.append((part.name, part.read()))
    return found


@given(BODIES, st.integers(1, 30))
def test_parts_are_what_was_sent(sent: list[tuple[str, bytes]], size: int) -> None:
    sent = [(name, body) for name, body in sent if b"\r\n--frontier" not in b"\r\n" + body]
    assert read(multipart(*sent), size) == sent


@given(BODIES, st.integers(1, 30), st.data())
def test_a_body_that_was_cut_is_refused(sent: list[tuple[str, bytes]], size: int, data: st.DataObject) -> None:
    sent = [(name, body) for name, body in sent if b"\r\n--frontier" not in b"\r\n" + body]
    body = multipart(*sent)
    short = body[: data.draw(st.integers(0, len(body) - 5))]
    with pytest.raises(InvalidInput, match="multipart body is broken"):
        read(short, size)


def test_parts_that_nobody_reads_are_skipped() -> None:
    parts = Parts(cut(multipart(("a", b"1" * 100_000), ("b", b"2")), 1000), b"frontier")
    assert parts.next() is not None
    second = parts.next()
    assert second is not None
    assert (second.name, second.read()) == ("b", b"2")
    assert parts.next() is None


def test_the_digest_is_of_names_and_rows_not_of_their_wrapping() -> None:
    digests = []
    for boundary in ("x", "another"):
        parts = Parts(cut(multipart(("a", b"1"), ("b", b"22"), boundary=boundary), 7), boundary.encode())
        while parts.next() is not None:
            pass
        digests.append(parts.digest)
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("application/json", None),
        ("multipart/form-data; boundary=abc", b"abc"),
        ('multipart/mixed; charset=x; boundary="a b"', b"a b"),
    ],
)
def test_the_boundary_is_in_the_content_type(said: str, expected: bytes | None) -> None:
    assert boundary_of(said) == expected


def test_a_multipart_body_without_a_boundary_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no boundary"):
        boundary_of("multipart/form-data")


def test_headers_of_a_part_are_bounded() -> None:
    body = b'--frontier\r\nContent-Disposition: form-data; name="' + b"x" * 100_000
    with pytest.raises(InvalidInput, match="too long"):
        read(body, 1000)
