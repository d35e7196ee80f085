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
