"""CSV in other forms, and a warning for a file that looks as if it had one."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Run, rows

from quire.errors import InvalidInput
from quire.rowfiles.csv import CsvForm

NEW = [{"id": 7, "v": 1.5}, {"id": 8, "v": None}]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("id;v\n7;1.5\n8;\n", ["--delimiter", ";"]),
        ("id\tv\n7\t1.5\n8\t\n", ["--delimiter", "tab"]),
        ("id\tv\n7\t1.5\n8\t\n", ["--delimiter", "\\t"]),
        ("'id'|v\n'7'|1.5\n8|\n", ["--delimiter", "|", "--quote", "'"]),
        ("7,1.5\n8,\n", ["--no-header"]),
        ("id,v\n7,1.5\n8,\\N\n", ["--null", "\\N"]),
        ("7;1.5\n8;n/a\n", ["--no-header", "--null", "n/a", "--delimiter", "semicolon"]),
    ],
)
def test_a_file_in_another_form_is_read(run: Run, lake: str, text: str, options: list[str]) -> None:
    Path("x.csv").write_text(text)
    assert run("append", lake, "events", "x.csv", *options).err == ""
    assert run("append", lake, "events", "-", "--format", "csv", *options, stdin=text).err == ""
    assert rows(lake, "events")[2:] == [NEW[0], NEW[0], NEW[1], NEW[1]]


def test_every_command_that_reads_csv_takes_its_form(run: Run, lake: str) -> None:
    Path("x.csv").write_text("id;name\n7;Gil\n")
    form = ("--delimiter", ";")
    run("insert", lake, "people", "x.csv", *form)
    run("upsert", lake, "people", "x.csv", *form)
    run("overwrite", lake, "people", "x.csv", *form)
    run("table", "create", lake, "new", "--from", "x.csv", *form)
    run("commit", lake, "--upsert", "people=x.csv", *form)
    assert rows(lake, "people") == rows(lake, "new") == [{"id": 7, "name": "Gil"}]


@pytest.mark.parametrize(("mark", "shown"), [(";", "';'"), ("\t", "tab"), ("|", "'|'")])
def test_a_file_that_looks_otherwise_is_warned_about(run: Run, lake: str, mark: str, shown: str) -> None:
    text = f"id{mark}v\n7{mark}1.5\n"
    Path("x.csv").write_text(text)
    with gzip.open("x.csv.gz", "wt") as file:
        file.write(text)
    for ran in (
        run("append", lake, "events", "x.csv", code=2),
        run("append", lake, "events", "x.csv.gz", code=2),
        run("append", lake, "events", "-", "--format", "csv", stdin=text, code=2),
        run("commit", lake, "--append", "events=x.csv", "--json", code=2),
        run("table", "create", lake, "new", "--from", "x.csv", code=None),
    ):
        assert f"looks as if its fields were separated by {shown}" in ran.err
        assert "--delimiter" in ran.err


def test_a_file_that_is_what_it_says_is_not(run: Run, lake: str) -> None:
    for number, text in enumerate(("id,v\n7,1.5\n", 'id,"v"\n8,\n')):
        Path(f"{number}.csv").write_text(text)
        assert run("append", lake, "events", f"{number}.csv").err == ""
    Path("x.csv").write_text('id,"a;b;c|d"\n1,x\n')
    assert run("table", "create", lake, "quoted", "--from", "x.csv").err == ""


@pytest.mark.parametrize(
    "options",
    [["--delimiter", ";;"], ["--delimiter", ""], ["--quote", "xx"], ["--delimiter", '"'], ["--delimiter", "é"]],
)
def test_a_form_that_cannot_be_is_refused(run: Run, lake: str, options: list[str]) -> None:
    Path("x.csv").write_text("id,v\n")
    assert run("append", lake, "events", "x.csv", *options, "--json", code=2).json["error"]["kind"] == "invalid-input"


@given(st.text(max_size=3))
def test_a_form_is_one_that_can_be_or_an_error(text: str) -> None:
    try:
        form = CsvForm.of(text, None, None, True)
    except InvalidInput:
        return
    assert len(form.delimiter) == 1


def test_stdin_is_read_once(run: Run, lake: str) -> None:
    error = run("append", lake, "events", "-", "-", "--format", "csv", "--json", stdin="id,v\n1,1\n", code=2).json[
        "error"
    ]
    assert "once" in error["message"]
