"""The small languages of options."""

from __future__ import annotations

import pyarrow as pa
import pytest

import quire
from quire.cli import arguments
from quire.conversion import type_text
from quire.errors import InvalidInput, InvalidToken
from quire.lake.commit.preconditions import TableVersion


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int64", pa.int64()),
        ("int", pa.int64()),
        ("text", pa.string()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us")),
        ("timestamp[ms]", pa.timestamp("ms")),
        ("timestamp[us, tz=UTC]", pa.timestamp("us", "UTC")),
        ("timestamp[us, tz=+01:00]", pa.timestamp("us", "+01:00")),
        ("decimal(10, 2)", pa.decimal128(10, 2)),
        ("string[]", pa.list_(pa.string())),
        ("float32[128]", pa.list_(pa.float32(), 128)),
        ("float32[2][]", pa.list_(pa.list_(pa.float32(), 2))),
    ],
)
def test_a_type_is_named_as_arrow_names_it(text: str, expected: pa.DataType) -> None:
    assert type_text.data_type(text) == expected


def test_columns_are_split_outside_brackets_only() -> None:
    schema = type_text.schema("id:int64!, price:decimal(10, 2), at:timestamp[us, tz=+01:00], vec:float32[3],n:int8")

    assert schema.names == ["id", "price", "at", "vec", "n"]
    assert [f.name for f in schema if not f.nullable] == ["id"]
    assert schema.field("price").type == pa.decimal128(10, 2)
    assert schema.field("at").type == pa.timestamp("us", "+01:00")


@pytest.mark.parametrize("text", ["id", "id:", ":int64", "id:int64,,v:int8", "id:intt64", "v:float32[x]"])
def test_a_wrong_schema_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        type_text.schema(text)
    assert "int64" in str(caught.value.next)


def test_tokens_are_opaque_or_positions_in_a_stream() -> None:
    minted = quire.token()
    assert arguments.token(minted) == minted
    assert arguments.token("nightly:a:7") == quire.StreamToken(scope="nightly:a", sequence=7)
    assert arguments.token(None) is None


@pytest.mark.parametrize("position", [2**62 + 1, 2**64 - 1, 10**40, "0" * 5000])
def test_a_position_that_no_stream_has_is_told_with_its_bound(position: object) -> None:
    with pytest.raises(InvalidToken, match="is not a position in the stream 'import'") as caught:
        arguments.token(f"import:{position}")
    assert str(2**62) in str(caught.value.next)
    for wrong in ("nightly", ":7", "nightly:x", "nightly:-1"):
        with pytest.raises(InvalidToken):
            arguments.token(wrong)


def test_pairs_never_repeat_what_they_were_given() -> None:
    assert arguments.pairs(["a=b=c", "d="], "--x", "key=value") == {"a": "b=c", "d": ""}
    with pytest.raises(InvalidInput) as caught:
        arguments.pairs(["fine=1", "secret"], "--x", "key=value")
    assert "number 2" in str(caught.value)
    assert "secret" not in str(caught.value.to_dict())


def test_scalars_are_json_where_they_read_as_json() -> None:
    given = ["a=1", "b=1.5", "c=true", "d=null", "e=x", 'f="1"', "g=[1,2]", "h="]
    expected = {"a": 1, "b": 1.5, "c": True, "d": None, "e": "x", "f": "1", "g": [1, 2], "h": ""}
    assert arguments.scalars(given, "--param") == expected


def test_an_expected_version_is_a_number() -> None:
    assert arguments.expectations(["t=7", "node:Person=1"]) == {"t": 7, "node:Person": 1}
    for wrong in ("t=new", "t=7@", "t=7@x", "t=@0123456789abcdef", "t=7@0123456789abcdef@", "t=7@0123456789ABCDEF"):
        with pytest.raises(InvalidInput):
            arguments.expectations([wrong])


def test_an_expected_version_may_be_of_one_very_table() -> None:
    found = arguments.expectations(["t=7@0123456789abcdef"])["t"]
    assert isinstance(found, TableVersion)
    assert (found, found.table, found.state) == (7, "0123456789abcdef", None)


def test_names_are_split_at_commas() -> None:
    assert arguments.names("id, name,") == ["id", "name"]
    assert arguments.names(None) is None
