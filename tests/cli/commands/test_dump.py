"""The graph out of the lake: dumps and blobs."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import SCHEMA, Run, asked
from tests.cli.test_output import terminal

BODY = bytes(range(256)) * 4_000
EVERYBODY = "match { $p: Person } return { $p.name as name, $p.age as age } order { name }"


@pytest.fixture
def photos(run: Run) -> str:
    """Photos by name, frames by film and number, and one photo without a body."""
    run("init", "photos")
    schema = (
        "node Photo { name: String @key  body: Blob? }  node Frame { film: String  number: I32  body: Blob  "
        "@key(film, number) }"
    )
    run("schema", "apply", "photos", schema)
    rows = [
        {"type": "Photo", "data": {"name": "sea", "body": f"base64:{base64.b64encode(BODY).decode()}"}},
        {"type": "Photo", "data": {"name": "none"}},
        {"type": "Frame", "data": {"film": "Metropolis", "number": 7, "body": "base64:c2V2ZW4="}},
    ]
    run("load", "photos", "-", stdin="".join(json.dumps(row) + "\n" for row in rows))
    return "photos"


def test_a_dump_is_loaded_again(run: Run, graph: str) -> None:
    ran = run("dump", graph, "all.ndjson")
    assert ran.lines()[-1] == ["wrote", "6", "rows", "to", "all.ndjson"]
    assert ["Person", "3"] in ran.lines()

    run("init", "copy")
    run("schema", "apply", "copy", SCHEMA)
    assert run("load", "copy", "all.ndjson", "--json").json["rows"] == 6
    assert asked("copy", EVERYBODY) == asked(graph, EVERYBODY)


def test_a_dump_goes_through_a_pipe(run: Run, graph: str) -> None:
    run("dump", graph, "all.ndjson")
    done = subprocess.run([sys.executable, "-m", "quire.cli", "dump", graph, "-"], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == Path("all.ndjson").read_bytes()
    assert not Path("-").exists()
    assert "stdout" in run("dump", graph, "-", "--json", code=2).json["error"]["message"]


def test_a_part_of_the_graph_is_dumped_at_any_commit(run: Run, graph: str) -> None:
    told = run("dump", graph, "people.ndjson.gz", "--type", "Person", "--json").json
    assert told == {"commit": "3.0", "file": "people.ndjson.gz", "rows": 4, "types": {"Person": 3, "Knows": 1}}
    assert run("dump", graph, "none.ndjson", "--at", "1.0", "--json").json["rows"] == 0
    assert "Did you mean 'Person'?" in run("dump", graph, "x.ndjson", "--type", "Persn", code=3).err
    assert "there already" in run("dump", graph, "none.ndjson", code=3).err
    assert not Path("x.ndjson").exists()


def test_a_blob_is_written_to_a_file(run: Run, photos: str) -> None:
    assert run("blob", photos, "Photo", "sea", "body", "-o", "sea.bin").out == f"wrote {len(BODY)} bytes to sea.bin\n"
    assert Path("sea.bin").read_bytes() == BODY
    told = run("blob", photos, "Photo", "sea", "body", "-o", "part.bin", "--range", "300:10", "--json").json
    assert told == {"commit": "2.0", "file": "part.bin", "size": len(BODY), "bytes": 10}
    assert Path("part.bin").read_bytes() == BODY[300:310]


def test_a_blob_goes_through_a_pipe(photos: str) -> None:
    command = [sys.executable, "-m", "quire.cli", "blob", photos, "Photo", "sea", "body"]
    assert subprocess.run(command, capture_output=True, timeout=60).stdout == BODY
    end = subprocess.run([*command, "--range", f"{len(BODY) - 5}:"], capture_output=True, timeout=60)
    assert end.stdout == BODY[-5:]


def test_a_key_of_several_values_is_a_list(run: Run, photos: str) -> None:
    run("blob", photos, "Frame", '["Metropolis", 7]', "body", "-o", "frame.bin")
    assert Path("frame.bin").read_bytes() == b"seven"
    assert "JSON list" in run("blob", photos, "Frame", "Metropolis", "body", "-o", "x", code=2).err


def test_a_blob_that_cannot_be_had_says_why(run: Run, photos: str) -> None:
    assert "has no body" in run("blob", photos, "Photo", "none", "body", "-o", "x", code=3).err
    assert run("blob", photos, "Photo", "moon", "body", "-o", "x", code=3).err.startswith("error: ")
    assert "not a Blob" in run("blob", photos, "Photo", "sea", "name", "-o", "x", code=2).err
    assert "Did you mean 'Photo'?" in run("blob", photos, "Foto", "sea", "body", "-o", "x", code=3).err
    assert "not a byte range" in run("blob", photos, "Photo", "sea", "body", "-o", "x", "--range", "a-b", code=2).err
    assert "share stdout" in run("blob", photos, "Photo", "sea", "body", "--json", code=2).json["error"]["message"]
    assert not os.path.exists("x")


def test_a_blob_is_not_written_to_a_terminal(photos: str) -> None:
    code, shown = terminal("blob", photos, "Photo", "sea", "body")
    assert code == 2
    assert "terminal" in shown
