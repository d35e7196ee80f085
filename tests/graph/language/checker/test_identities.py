"""Ids in the where of a statement: named by keys, as in an insert, and ordered only where the key is a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import InvalidQuery

SCHEMA = """
node Stop { number: I64 @key  note: String? }
node Seat { row: String  number: I64  @key(row, number) }
node Name { text: String @key }
node Level { height: F64 @key }
edge Next: Stop -> Stop { hops: I64? }
edge Beside: Seat -> Seat
edge Alias: Name -> Name
edge Above: Level -> Level
"""
ROWS: list[dict[str, Any]] = [
    *({"type": "Stop", "data": {"number": n}} for n in (-1, 2, 9, 10)),
    *({"type": "Seat", "data": {"row": row, "number": n}} for row, n in (("x", 1), ("y", 2))),
    *({"type": "Name", "data": {"text": text}} for text in "ab"),
    {"type": "Level", "data": {"height": 1.0}},
    *({"edge": "Next", "from": a, "to": b, "data": {}} for a, b in ((-1, 2), (2, 9), (9, 10), (10, 9))),
    *({"edge": "Beside", "from": a, "to": b, "data": {}} for a, b in ((["x", 1], ["y", 2]), (["y", 2], ["x", 1]))),
    {"edge": "Alias", "from": "a", "to": "b", "data": {}},
    {"edge": "Above", "from": 1, "to": 1, "data": {}},
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[quire.Graph]:
    folder: Path = tmp_path_factory.mktemp("ids")
    with quire.create(str(folder / "lake"), backfill=False) as lake:
        made = quire.Graph(lake)
        made.apply_schema(SCHEMA)
        made.load(ROWS)
        yield made


def deleted(graph: quire.Graph, type: str, where: str, params: str = "", **values: Any) -> int:
    """How many rows a delete would take, found without committing it."""
    from quire.graph.integrity.changes import catalog_of
    from quire.graph.language import bind, check, parse
    from quire.graph.mutate import run

    with graph.lake.transaction() as tx:
        query = check(parse(f"query q({params}) {{ delete {type} where {where} }}").queries[0], catalog_of(tx))
        receipt = run(tx, query.body, bind(query, values))  # type: ignore[arg-type]
        tx.discard()
    return receipt.deleted.get(type, 0)


@pytest.mark.parametrize(
    ("type", "where", "count"),
    [
        ("Next", "from = 10", 1),
        ("Next", "10 = from", 1),
        ("Next", "from = -1", 1),
        ("Next", "from != 9", 3),
        ("Next", "from = [9]", 1),
        ("Next", 'from = "9"', 1),
        ("Next", 'from = "09"', 1),
        ("Next", "from in [9, 10]", 2),
        ("Next", 'from in [9, "10"]', 2),
        ("Next", "from in []", 0),
        ("Next", "from = 2.5", 0),
        ("Next", "from = to", 0),
        ("Stop", "id in [2, 3]", 1),
        ("Beside", 'from = ["x", 1]', 1),
        ("Beside", 'from != ["x", 1]', 1),
        ("Beside", 'from in [["x", 1], ["y", 2], ["z", 3]]', 2),
        ("Beside", r'from = "[\"x\", 1]"', 1),
        ("Alias", 'from < "b"', 1),
        ("Alias", 'to starts_with "b"', 1),
        ("Alias", 'from in ["a", "c"]', 1),
        ("Above", "from = 1", 1),
        ("Above", 'to = "1"', 1),
    ],
)
def test_an_id_is_compared_by_its_key(graph: quire.Graph, type: str, where: str, count: int) -> None:
    assert deleted(graph, type, where) == count


def test_parameters_name_keys_too(graph: quire.Graph) -> None:
    assert deleted(graph, "Next", "from = $n", "$n: I64", n=9) == 1
    assert deleted(graph, "Next", "from in [2, $n]", "$n: I64", n=9) == 2
    assert deleted(graph, "Next", "from in $all", "$all: [I64]", all=[2, 9, 9, 77]) == 2
    assert deleted(graph, "Next", "from = $n", "$n: I64?", n=None) == 0
    assert deleted(graph, "Beside", "from = [$row, $n]", "$row: String, $n: I64", row="y", n=2) == 1


@pytest.mark.parametrize(
    ("type", "where", "advice"),
    [
        ("Next", "from < 10", "Compare it with =, != or in."),
        ("Next", 'to >= "10"', "Compare it with =, != or in."),
        ("Next", 'to contains "1"', "Compare it with =, != or in."),
        ("Next", 'from starts_with "1"', "Compare it with =, != or in."),
        ("Next", "from < to", "Compare it with =, != or in."),
        ("Stop", "id > 2", "Compare number instead."),
        ("Seat", 'id > "a"', "Compare row and number instead."),
    ],
)
def test_an_id_has_no_order_unless_its_key_is_text(graph: quire.Graph, type: str, where: str, advice: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        deleted(graph, type, where)
    assert (caught.value.line, caught.value.column) == (1, len(f"query q() {{ delete {type} where ") + 1)
    assert caught.value.next == advice


@pytest.mark.parametrize(
    ("type", "where", "said"),
    [
        ("Next", "from = [9, 1]", "the key of Stop is number."),
        ("Next", "from = true", "from is the id of a Stop, and this is Bool."),
        ("Next", "from in [hops]", "from is the id of a Stop, and this is I64?."),
        ("Beside", "from = 1", "from is the id of a Seat, and this is I64."),
        ("Beside", 'from = ["x", true]', "Seat.number is I64, and this is Bool."),
        ("Alias", "from = 1", "from is the id of a Name, and this is I64."),
    ],
)
def test_what_is_no_key_is_refused(graph: quire.Graph, type: str, where: str, said: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        deleted(graph, type, where)
    assert caught.value.message.endswith(said)
