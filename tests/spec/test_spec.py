"""The model-checked specification: its rules hold together, and each of them is needed.

`make spec` runs every check; here run the small ones.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from spec import check

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "design" / "004-model.md").read_text("utf-8")

CASES = {case.name: case for case in check.cases()}
BROKEN = [name for name in CASES if name.startswith("no-")]
REACHED = [name for name in CASES if name.startswith("reach-")]

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="TLC needs Java, and `java` is not on the path")


def checked(name: str) -> check.Result:
    return check.run(CASES[name], workers=1, quick=True, timeout=240)


@needs_java
@pytest.mark.parametrize("name", ["small", "restored", "offers-small", "statements-small", "statements-names"])
def test_with_all_rules_everything_holds(name: str) -> None:
    result = checked(name)
    assert result.is_as_expected, result.output
    assert result.distinct > 1, "nothing happened"


@needs_java
@pytest.mark.parametrize("name", BROKEN)
def test_without_one_rule_its_violation_is_found(name: str) -> None:
    result = checked(name)
    assert result.is_as_expected, result.output
    assert len(result.trace) > 2, "a trace shows how it goes wrong"


@needs_java
@pytest.mark.parametrize("name", REACHED)
def test_the_model_is_not_vacuous(name: str) -> None:
    result = checked(name)
    assert result.is_as_expected, result.output


@needs_java
def test_a_check_that_comes_out_otherwise_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A violation where none is expected, another one than expected, and none where one is: all three fail."""
    epoch = CASES["no-epoch-check"]
    result = check.run(epoch, workers=1, quick=True)
    for expected, fine in [("EpochsRise", True), ("Chain", False), (None, False)]:
        case = check.Case(epoch.path, epoch.about, expected)
        assert check.read_output(case, result.output, 1.0).is_as_expected is fine
    assert not check.read_output(epoch, "Error: Parsing or semantic analysis failed.", 1.0).is_as_expected
    case = check.Case(epoch.path, epoch.about, None)
    assert not check.read_output(case, "Error: Parsing or semantic analysis failed.", 1.0).is_as_expected
    assert check.main(["no-such-check"]) == 2
    assert "Next: choose from" in capsys.readouterr().err


def constants(case: check.Case) -> dict[str, str]:
    return dict(re.findall(r"^  (\w+) = (.+)$", case.path.read_text("utf-8"), re.MULTILINE))


def rules(module: str) -> list[str]:
    text = (ROOT / "spec" / f"{module}.tla").read_text("utf-8")
    block = text.partition("CONSTANTS          \\* the rules\n")[2].partition("\n\n")[0]
    return re.findall(r"^  (\w+),? +\\\*", block, re.MULTILINE)


@pytest.mark.parametrize("module", ["Quire", "Offers", "Statements"])
def test_every_rule_is_removed_by_exactly_one_check(module: str) -> None:
    assert len(rules(module)) >= 7
    cases = {name: case for name, case in CASES.items() if case.module == module}
    removed = {
        name: [rule for rule in rules(module) if constants(case)[rule] == "FALSE"] for name, case in cases.items()
    }
    broken = [name for name in cases if name in BROKEN]
    assert sorted(rule for name in broken for rule in removed[name]) == sorted(rules(module))
    assert all(len(removed[name]) == 1 for name in broken)
    assert not any(removed[name] for name in cases if name not in broken), "all rules are on where nothing may fail"


def test_the_page_names_every_check() -> None:
    missing = [name for name in CASES if f"`{name}`" not in PAGE]
    assert not missing, f"docs/design/004-model.md does not name {', '.join(missing)}"


def test_a_missing_tool_says_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    assert check.main(["small"]) == 2
    assert "Next: install a Java runtime" in capsys.readouterr().err
