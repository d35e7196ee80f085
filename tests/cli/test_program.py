"""Errors, exit codes and what surrounds every command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from tests.cli.conftest import Run, rows

import quire
from quire import errors
from quire.cli import program as cli
from quire.cli.reference import commands

QUIRE = [sys.executable, "-m", "quire.cli"]


def test_version_is_the_packages(run: Run) -> None:
    assert run("--version").out == f"quire {quire.__version__}\n"


def test_help_documents_the_exit_codes(run: Run) -> None:
    text = " ".join(run("--help").out.split())

    assert "4 conflict" in text
    assert "5 outcome unknown" in text
    for code in {e.exit_code for e in vars(errors).values() if isinstance(e, type) and hasattr(e, "exit_code")}:
        assert f" {code} " in text


def test_every_command_takes_json_and_the_lake_first() -> None:
    for name, command in commands():
        if hasattr(command, "commands"):
            continue
        options = {spelling for parameter in command.params for spelling in parameter.opts}
        assert "--json" in options, name
        first = next(p for p in command.params if p.param_type_name == "argument")
        if name.startswith("quire token "):
            assert first.name == "keys", "it is about a file of the server, and no lake"
            continue
        assert "--storage-option" in options, name
        assert first.name == ("lakes" if name == "quire serve" else "lake"), name


@pytest.mark.parametrize(
    ("arguments", "code", "message", "advice"),
    [
        (["tables", "nowhere"], 3, "There is no lake", "quire init"),
        (["tables", "s4://bucket/x"], 2, "unknown scheme", "s3://"),
        (["table", "describe", "lake", "poeple"], 3, "no table 'poeple'", "'people'"),
        (["init", "lake"], 3, "already exists", ""),
        (["sql", "lake", "select * from nothing"], 3, "no table 'nothing'", "people"),
        (["tables", "lake", "--branch", "exp"], 3, "no branch 'exp'", "branch list"),
        (["tables", "lake", "--at", "v9"], 3, "no commit, tag or branch 'v9'", "tag list"),
        (["tables", "lake", "--at", "99.0"], 3, "99", ""),
        (["append", "lake", "events", "absent.csv"], 3, "no file absent.csv", "Check"),
        (["append", "lake", "events", "rows.txt"], 2, "format", "--format"),
        (["delete", "lake", "people", "nonsense = 1"], 2, "nonsense", ""),
    ],
)
def test_an_error_says_what_happened_and_what_to_do_next(
    run: Run, lake: str, arguments: list[str], code: int, message: str, advice: str
) -> None:
    ran = run(*arguments, code=code)

    first, *rest = ran.err.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert advice in "".join(rest)
    assert ran.out == ""
    assert "Traceback" not in ran.err


def test_with_json_an_error_is_the_one_document_on_stdout(run: Run, lake: str) -> None:
    ran = run("table", "describe", lake, "poeple", "--json", code=3)

    assert ran.json == {
        "error": {
            "kind": "table-not-found",
            "message": "There is no table 'poeple'.",
            "next": "Did you mean 'people'?",
            "retryable": False,
            "table": "poeple",
        }
    }
    assert ran.err == ""


@pytest.mark.parametrize("arguments", [["frob"], ["tables"], ["tables", "lake", "--frob"], ["log", "lake", "-n", "x"]])
def test_wrong_usage_exits_2(run: Run, arguments: list[str]) -> None:
    ran = run(*arguments, code=2)
    assert ran.err.startswith("error: ")
    assert "--help" in ran.err

    assert run(*arguments, "--json", code=2).json["error"]["kind"] == "usage"


def test_a_group_without_a_command_shows_its_help(run: Run) -> None:
    ran = run("table", code=2)
    assert "describe" in ran.out + ran.err


def test_a_conflict_exits_4(run: Run, lake: str) -> None:
    ran = run("delete", lake, "people", "id = 1", "--expect", "people=1", "--json", code=4)
    assert ran.json["error"]["kind"] == "expectation-failed"

    ran = run("delete", lake, "people", "id = 1", "--if-head", "1.0", "--json", code=4)
    assert ran.json["error"]["kind"] == "expectation-failed"
    assert len(rows(lake, "people")) == 3


def test_an_expected_table_is_known_by_its_id(run: Run, lake: str) -> None:
    """One that was dropped and made anew has the name and the version, and is another table."""
    run("table", "create", lake, "again", "--schema", "id:int64")
    told = run("table", "describe", lake, "again", "--json").json
    seen = f"again={told['version']}@{told['id']}"
    run("table", "drop", lake, "again")
    run("table", "create", lake, "again", "--schema", "id:int64")
    run("table", "drop", lake, "again", "--expect", seen, code=4)
    run("table", "drop", lake, "again", "--expect", f"again={told['version']}")


def test_a_key_that_exists_exits_4(run: Run, lake: str) -> None:
    ran = run("append", lake, "people", "-", "--format", "jsonl", "--json", stdin='{"id": 1, "name": "Z"}', code=4)
    assert ran.json["error"]["kind"] == "key-conflict"


def test_an_unknown_outcome_exits_5_and_says_how_to_settle_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = errors.CommitUnknown("Nobody knows.", next="…", branch="main", slot=7, write="abc")

    def fail() -> None:
        raise unknown

    command = cli.typer.Typer()
    command.command("x")(fail)
    command.callback()(lambda: None)
    monkeypatch.setattr(cli, "app", command)

    assert cli.run(["x"]) == 5
    text = capsys.readouterr().err
    assert "Do not run it again" in text
    assert "quire show LAKE 7 --branch main" in text
    assert "abc" in text


def test_what_nobody_expected_exits_1_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("boom")

    command = cli.typer.Typer(pretty_exceptions_enable=False)
    command.command("x")(fail)
    command.callback()(cli._root)
    monkeypatch.setattr(cli, "app", command)

    assert cli.run(["x"]) == 1
    text = capsys.readouterr().err
    assert "RuntimeError: boom" in text
    assert "--debug" in text
    assert "Traceback" not in text

    assert cli.run(["--debug", "x"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_debug_shows_the_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" in run("--debug", "tables", "nowhere", code=3).err
    monkeypatch.setenv("QUIRE_DEBUG", "1")
    assert "Traceback" in run("tables", "nowhere", code=3).err


def test_storage_options_are_never_printed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-secret"
    port = "http://127.0.0.1:9"  # nothing listens there
    options = [f"aws_secret_access_key={secret}", "aws_access_key_id=me", f"aws_endpoint={port}", "allow_http=true"]
    given = [word for option in options for word in ("--storage-option", option)]

    malformed = run("tables", "s3://bucket/lake", "--storage-option", secret, code=2)
    assert "key=value" in malformed.err
    assert secret not in malformed.out + malformed.err

    malformed = run("tables", f"s3://me:{secret}@bucket/lake", "--json", code=2)
    assert secret not in malformed.out + malformed.err

    examined = run("--debug", "doctor", "file:///nonexistent/lake", *given, "--json", code=1)
    assert secret not in examined.out + examined.err

    monkeypatch.setenv("QUIRE_STORAGE_OPTIONS", " ".join(options))
    examined = run("doctor", "nowhere", code=1)
    assert "QUIRE_STORAGE_OPTIONS" in examined.out
    assert secret not in examined.out + examined.err


def test_options_of_the_store_come_from_the_variable_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIRE_STORAGE_OPTIONS", "aws_region")
    assert "QUIRE_STORAGE_OPTIONS number 1 is not of the form key=value" in run("tables", "lake", code=2).err
    monkeypatch.setenv("QUIRE_STORAGE_OPTIONS", "aws_region=here")
    assert "--storage-option number 1" in run("tables", "lake", "--storage-option", "x", code=2).err


def test_ctrl_c_exits_130_and_commits_nothing(lake: str) -> None:
    process = subprocess.Popen(
        [*QUIRE, "append", lake, "events", "-", "--format", "jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    # More than a pipe holds: when the write returns, the command is at work.
    process.stdin.write(b'{"id": 7, "v": 0.5}\n' * 200_000)
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130  # with stdin still open

    out, err = process.communicate()
    assert b"nothing was committed" in err
    assert b"Traceback" not in err
    assert out == b""
    assert len(rows(lake, "events")) == 2


def test_ctrl_c_in_a_long_query_exits_130(lake: str) -> None:
    query = "select count(*) from range(10000000000) a, events"
    process = subprocess.Popen([*QUIRE, "sql", lake, query], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert wait_until_busy(process)
    process.send_signal(signal.SIGINT)

    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b"interrupted; nothing was committed\n"
    assert out == b""


def wait_until_busy(process: subprocess.Popen[bytes], seconds: float = 4.0) -> bool:
    """Whether a process has used so much processor time: more than its start takes."""
    tick = os.sysconf("SC_CLK_TCK")
    end = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        if (int(fields[11]) + int(fields[12])) / tick > seconds:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Query interrupted"),
        duckdb.InterruptException("INTERRUPT Error: Interrupted!"),
        KeyboardInterrupt(),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_interrupt_is_one_however_it_arrives(
    run: Run, lake: str, monkeypatch: pytest.MonkeyPatch, error: BaseException, wrapped: bool
) -> None:
    def stop(self: object, *rest: object, **how: object) -> None:
        if not wrapped:
            raise error
        raise errors.StorageError("It failed.") from error

    monkeypatch.setattr(quire.TransactionTable, "append", stop)
    ran = run("append", lake, "events", "-", "--format", "jsonl", stdin='{"id": 7, "v": 0.5}', code=130)

    assert ran.err == "interrupted; nothing was committed\n"


def test_an_interrupt_of_the_import_leaves_no_traceback() -> None:
    code = """
import sys

class Interrupting:
    def find_spec(self, name, *rest):
        if name == "quire.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from quire_command import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.returncode == 130
    assert done.stderr == "interrupted; nothing was committed\n"


def test_a_reader_that_has_enough_is_no_error(lake: str) -> None:
    command = " ".join(QUIRE)
    done = subprocess.run(
        ["bash", "-c", f"{command} sql {lake} 'select * from range(1000000)' | head -n 2; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stderr == ""
    assert done.returncode == 141
    assert len(done.stdout.splitlines()) == 2


def test_the_command_line_loads_no_engine_before_it_needs_one() -> None:
    code = "import sys, quire.cli; print({'pyarrow', 'lance', 'duckdb', 'pandas'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_the_installed_command_runs(lake: str) -> None:
    script = Path(sys.executable).with_name("quire")
    done = subprocess.run([script, "tables", lake], capture_output=True, text=True, timeout=60, env=dict(os.environ))

    assert done.returncode == 0
    assert done.stderr == ""
    assert "people" in done.stdout
