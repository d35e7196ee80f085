"""The command line on an object store."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Run

from quire.testing.s3 import SeaweedFS

pytestmark = pytest.mark.s3


def test_a_lake_on_s3_is_made_written_read_and_examined(
    run: Run, s3: SeaweedFS, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = s3.uri("cli")
    given = [word for key, value in s3.options.items() for word in ("--storage-option", f"{key}={value}")]
    printed = run("init", lake, *given).out
    printed += run("table", "create", lake, "t", "--from", "-", "--format", "csv", *given, stdin="id\n1\n2\n").out

    monkeypatch.setenv("QUIRE_STORAGE_OPTIONS", " ".join(f"{key}={value}" for key, value in s3.options.items()))
    assert run("sql", lake, "select sum(id) as total from t", "--format", "json").json == [{"total": 3}]
    examined = run("doctor", lake, "--probe", "--json")
    assert examined.json["store"] == "s3"
    assert examined.json["create_if_absent"] is True

    monkeypatch.delenv("QUIRE_STORAGE_OPTIONS")
    elsewhere = {**s3.options, "aws_endpoint": "http://127.0.0.1:9"}
    given = [word for key, value in elsewhere.items() for word in ("--storage-option", f"{key}={value}")]
    wrong = run("--debug", "tables", lake, *given, code=7)
    assert "Traceback" in wrong.err
    secrets = [value for key, value in s3.options.items() if "secret" in key]
    assert secrets
    for secret in secrets:
        assert secret not in printed + examined.out + examined.err + wrong.out + wrong.err


def test_a_refused_key_exits_7_and_is_not_printed(run: Run, s3: SeaweedFS) -> None:
    options = {**s3.options, "aws_secret_access_key": "hunter2-wrong"}
    given = [word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")]
    ran = run("init", s3.uri("refused"), *given, code=7)
    assert ran.err.startswith("error: ")
    assert "hunter2-wrong" not in ran.out + ran.err
