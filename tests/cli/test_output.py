"""What is printed, and where."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.cli.conftest import Run

from quire.cli.output import Output, cell, clean


def terminal(*arguments: str) -> tuple[int, str]:
    """Run a command with a terminal as stdout and stderr; its exit code and all that was written."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "quire.cli", *arguments]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        written += part
    os.close(ours)
    return process.wait(timeout=60), written.decode()


def test_a_terminal_gets_a_drawn_table_and_a_pipe_gets_columns(run: Run, lake: str) -> None:
    code, drawn = terminal("tables", lake)
    assert code == 0
    assert "─" in drawn
    assert "people" in drawn

    plain = run("tables", lake)
    assert "─" not in plain.out
    assert "\x1b" not in plain.out
    assert plain.lines()[0] == ["table", "rows", "version", "key", "commit"]


def test_progress_is_for_terminals_only(run: Run, lake: str) -> None:
    with open("rows.jsonl", "w") as file:
        file.writelines(f'{{"id": {i}, "v": 0.5}}\n' for i in range(100, 200))

    code, shown = terminal("append", lake, "events", "rows.jsonl")
    assert code == 0
    assert "rows" in shown
    assert "committed 3.0" in shown

    quiet = run("append", lake, "events", "rows.jsonl")
    assert quiet.err == ""
    assert quiet.out.startswith("committed 4.0 on main\n")
    assert run("append", lake, "events", "rows.jsonl", "--json").err == ""


def test_a_terminal_gets_the_first_rows_and_is_told_so() -> None:
    subprocess.run([sys.executable, "-m", "quire.cli", "init", "lake"], check=True, capture_output=True)
    code, shown = terminal("sql", "lake", "select * from range(1000)")
    assert code == 0
    assert "more rows" in shown
    assert "999" not in shown


def test_a_pipe_gets_every_row(run: Run, lake: str) -> None:
    ran = run("sql", lake, "select range as n, range * 1000000000 as wide from range(2500)")
    assert len(ran.lines()) == 2501
    assert ran.lines()[-1] == ["2499", "2499000000000"]


def test_text_from_a_table_cannot_drive_the_terminal(run: Run, lake: str) -> None:
    ran = run("sql", lake, "select chr(27) || '[2J' as x, 'a' || chr(10) || 'b' as y")
    assert "\x1b" not in ran.out
    assert ran.lines()[1] == ["\\x1b[2J", "a\\nb"]
    assert clean("a\x1b[31m\x9b") == "a\\x1b[31m\\x9b"


def test_square_brackets_are_not_markup(lake: str) -> None:
    _, shown = terminal("sql", lake, "select '[bold]x[/bold]' as y")
    assert "[bold]x[/bold]" in shown


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "true"), (1.5, "1.5"), ("x", "x"), ([1, 2], "[1,2]"), ({"a": b"\x00"}, '{"a":"AA=="}')],
)
def test_a_cell_reads_plainly(value: object, text: str) -> None:
    assert cell(value) == text


def test_null_and_empty_text_look_different_and_json_tells_them_as_they_are(run: Run, lake: str) -> None:
    query = "select * from (values (1, null), (2, ''), (3, 'NULL'), (4, 'x y')) as t(id, v)"
    ran = run("sql", lake, query)
    assert [line.split(maxsplit=1)[1] for line in ran.out.splitlines()[1:]] == ["NULL", '""', '"NULL"', "x y"]
    assert [row["v"] for row in run("sql", lake, query, "--json").json["rows"]] == [None, "", "NULL", "x y"]
    assert run("sql", lake, query, "--format", "csv").out.splitlines()[1:3] == ["1,", '2,""']
    run("table", "create", lake, "t", "--schema", "id:int64,name:string", "--key", "id")
    assert "NULL" not in run("table", "describe", lake, "events").out, "what is no value of a table stays empty"


def test_rows_that_are_too_wide_for_a_terminal_are_printed_one_value_per_line(lake: str) -> None:
    wide = ", ".join(f"'{'x' * 20}' as c{n}" for n in range(8))
    _, shown = terminal("sql", lake, f"select {wide}, null as nothing")
    assert "-- row 1 --" in shown
    assert f"c7       {'x' * 20}" in shown
    assert "nothing  NULL" in shown
    assert all(len(line) <= 100 for line in shown.splitlines())
    _, drawn = terminal("sql", lake, "select 1 as a, null as b")
    assert "-- row 1 --" not in drawn
    _, kept = terminal("sql", lake, f"select {wide}", "--no-vertical")
    assert "-- row 1 --" not in kept
    _, many = terminal("sql", lake, "select range as n from range(1000)", "-v")
    assert "-- row 200 --" in many
    assert "-- row 201 --" not in many
    assert "the first 200 are shown" in many


def test_a_pipe_gets_columns_unless_it_asks_for_lines(run: Run, lake: str) -> None:
    wide = ", ".join(f"'{'x' * 50}' as c{n}" for n in range(8))
    assert len(run("sql", lake, f"select {wide}").out.splitlines()) == 2
    assert run("sql", lake, "select id, name from people where id < 3 order by id", "--vertical").out.splitlines() == [
        "-- row 1 --",
        "id    1",
        "name  Ada",
        "-- row 2 --",
        "id    2",
        "name  Bobby",
    ]


def test_a_pipe_gets_every_value_whole(run: Run, lake: str) -> None:
    assert run("sql", lake, "select range(1000) as x").out.splitlines()[1].endswith(",998,999]")


def test_a_long_value_is_cut_for_people(run: Run, lake: str) -> None:
    assert cell(list(range(1000))).endswith("…")
    whole = run("sql", lake, "select range(1000) as x", "--json")
    assert len(whole.json["rows"][0]["x"]) == 1000


def test_progress_counts_what_passes() -> None:
    with Output(as_json=True).progress("work") as progress:
        batches = pa.table({"a": range(10)}).to_batches(max_chunksize=4)
        through = progress.through(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
        assert through.read_all().num_rows == 10
    assert progress.rows == 10
