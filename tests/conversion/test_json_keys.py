"""Objects of JSON that have a key twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from tests.rowfiles.reading import read_files

import quire
from quire.conversion.json_keys import repeated
from quire.errors import QuireError, SchemaMismatch

TWICE = [
    ('{"a": 1, "a": 1}', "a"),
    ('{"a": 1, "b": {"c" : 1, "c": 2}}', "c"),
    ('{"a": [{"c": 1}, {"c": 1, "d": 2, "d": 3}]}', "d"),
    ('{"a": 1, "\\u0061": 2}', "a"),
    ('{"a\\"b": 1, "a\\"b": 2}', 'a"b'),
    ('[{"a": 1, "a": 2}]', "a"),
]
ONCE = [
    '{"a": 1, "b": 2}',
    '{"a": {"a": {"a": 1}}}',
    '[{"a": 1}, {"a": 2}]',
    '{"a": "\\"b\\": 1, \\"b\\": 2"}',
    '{"a": "b\\": "}',
    '{"": 1, " ": 2}',
    "[]",
    "5",
]


@pytest.mark.parametrize(("text", "key"), TWICE)
def test_a_key_that_is_there_twice_is_found(text: str, key: str) -> None:
    assert repeated(text.encode(), msgspec.json.decode(text)) == key


@pytest.mark.parametrize("text", ONCE)
def test_others_are_not(text: str) -> None:
    assert repeated(text.encode(), msgspec.json.decode(text)) is None


def test_a_line_of_a_graph_is_refused_with_its_key(tmp_path: Path) -> None:
    graph = quire.Graph(quire.create(tmp_path / "lake"))
    graph.apply_schema("node T { n: String @key v: I64? }")
    lines = [
        '{"type": "T", "data": {"n": "a", "v": 1}}',
        '{"type": "T", "data": {"n": "b", "v": 1, "v": 2}}',
        '{"type": "T", "type": "T", "data": {"n": "c"}}',
    ]
    (tmp_path / "a.ndjson").write_text("\n".join(lines))
    with pytest.raises(QuireError, match="the key 'v' twice") as caught:
        graph.load(tmp_path / "a.ndjson")
    assert [v["line"] for v in caught.value.fields["violations"]] == [2, 3]


def test_json_within_csv_and_parameters_are_read_so_too(tmp_path: Path) -> None:
    schema = pa.schema({"v": pa.struct({"a": pa.int64()}), "w": pa.string()})
    (tmp_path / "a.csv").write_text('v,w\n"{""a"": 1}",\n"{""a"": 1, ""a"": 2}",\n')
    with pytest.raises(SchemaMismatch, match="line 3: Column 'v'.* has the key 'a' twice"):
        read_files([str(tmp_path / "a.csv")], None, schema).read_all()
    quire.Graph(quire.create(tmp_path / "lake")).apply_schema("node T { n: String @key }")
    query = "query q($n: String) { match { $t: T { n: $n } } return { $t.n } }"
    command = [sys.executable, "-m", "quire", "query", tmp_path / "lake", query, "--params", '{"n": "a", "n": "b"}']
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "--params has the key 'n' twice" in ran.stderr
