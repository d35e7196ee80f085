"""The small languages of options."""

from __future__ import annotations

import pyarrow as pa
import pytest

import quire
from quire.cli import values
from quire.errors import InvalidInput, InvalidToken


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
    assert values.data_type(text) == expected


def test_columns_are_split_outside_brackets_only() -> None:
    schema = values.schema("id:int64!, price:decimal(10, 2), at:timestamp[us, tz=+01:00], vec:float32[3],n:int8")

    assert schema.names == ["id", "price", "at", "vec", "n"]
    assert [f.name for f in schema if not f.nullable] == ["id"]
    assert schema.field("price").type == pa.decimal128(10, 2)
    assert schema.field("at").type == pa.timestamp("us", "+01:00")


@pytest.mark.parametrize("text", ["id", "id:", ":int64", "id:int64,,v:int8", "id:intt64", "v:float32[x]"])
def test_a_wrong_schema_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        values.schema(text)
    assert "int64" in str(caught.value.next)


def test_tokens_are_opaque_or_positions_in_a_stream() -> None:
    minted = quire.token()
    assert values.token(minted) == minted
    assert values.token("nightly:a:7") == quire.StreamToken(scope="nightly:a", sequence=7)
    assert values.token(None) is None
    for wrong in ("nightly", ":7", "nightly:x", "nightly:-1"):
        with pytest.raises(InvalidToken):
            values.token(wrong)


def test_pairs_never_repeat_what_they_were_given() -> None:
    assert values.pairs(["a=b=c", "d="], "--x", "key=value") == {"a": "b=c", "d": ""}
    with pytest.raises(InvalidInput) as caught:
        values.pairs(["fine=1", "secret"], "--x", "key=value")
    assert "number 2" in str(caught.value)
    assert "secret" not in str(caught.value.to_dict())


def test_scalars_are_json_where_they_read_as_json() -> None:
    given = ["a=1", "b=1.5", "c=true", "d=null", "e=x", 'f="1"', "g=[1,2]", "h="]
    expected = {"a": 1, "b": 1.5, "c": True, "d": None, "e": "x", "f": "1", "g": [1, 2], "h": ""}
    assert values.scalars(given, "--param") == expected


def test_an_expected_version_is_a_number() -> None:
    assert values.expectations(["t=7", "node:Person=1"]) == {"t": 7, "node:Person": 1}
    with pytest.raises(InvalidInput):
        values.expectations(["t=new"])


def test_names_are_split_at_commas() -> None:
    assert values.names("id, name,") == ["id", "name"]
    assert values.names(None) is None
