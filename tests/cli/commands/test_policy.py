"""The policy of a lake, and its audit, on the command line."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run

RULES = """
@id("readers")
permit(principal in Role::"analyst", action in Action::"read", resource in Lake::"lake")
unless { resource == Column::"t/name" };
@id("keepers")
permit(principal in Role::"keeper", action, resource);
"""
CASES = """
[[case]]
actor = "ada"
roles = ["analyst"]
action = "read"
on = 'Table::"t"'
expect = "allow"

[[case]]
actor = "ada"
roles = ["analyst"]
action = "write"
on = 'Table::"t"'
expect = "{expected}"
"""


def test_a_policy_is_set_shown_and_tested(run: Run, lake: str) -> None:
    Path("rules.cedar").write_text(RULES)
    Path("cases.toml").write_text(CASES.replace("{expected}", "deny"))
    assert run("policy", "show", lake).out.startswith("no policy")
    assert run("policy", "test", lake, "cases.toml", "--policy", "rules.cedar", "--json").json["wrong"] == 0
    assert run("policy", "set", lake, "rules.cedar", "-m", "first", "--json").json["generation"] == 0
    shown = run("policy", "show", lake).out
    assert "// generation 0 by" in shown
    assert '@id("keepers")' in shown
    assert run("policy", "show", lake, "--json").json["policy"]["message"] == "first"
    Path("tags.toml").write_text('[tables.nothing]\ntags = ["x"]\n')
    assert "note: the tags name table 'nothing'" in run("policy", "set", lake, "rules.cedar", "--tags", "tags.toml").out
    assert [p["generation"] for p in run("policy", "show", lake, "--log", "--json").json["policies"]] == [1, 0]
    assert run("policy", "show", lake, "--generation", "0", "--json").json["policy"]["tables"] == {}
    assert run("policy", "show", lake, "--generation", "9", "--json", code=3).json["error"]["kind"] == "not-found"


def test_a_case_with_another_answer_fails(run: Run, lake: str) -> None:
    Path("rules.cedar").write_text(RULES)
    Path("cases.toml").write_text(CASES.replace("{expected}", "allow"))
    told = run("policy", "test", lake, "cases.toml", "--policy", "rules.cedar", code=6)
    assert "WRONG" in told.out
    assert "1 of 2 cases" in told.err


def test_a_decision_is_explained(run: Run, lake: str) -> None:
    Path("rules.cedar").write_text(RULES)
    run("policy", "set", lake, "rules.cedar")
    told = run("policy", "explain", lake, "ada", "read", 'Table::"t"', "--role", "analyst", "--json").json
    assert (told["allowed"], told["rules"]) == (True, ["readers"])
    assert run("policy", "explain", lake, "ada", "read", 'Table::"t"', "--json").json["allowed"] is False
    assert "none allows it" in run("policy", "explain", lake, "ada", "write", 'Table::"t"').out
    assert (
        run("policy", "explain", lake, "ada", "fly", "Lake", "--json", code=2).json["error"]["kind"] == "invalid-input"
    )


def test_what_is_wrong_with_a_policy_is_told(run: Run, lake: str) -> None:
    Path("rules.cedar").write_text("permit(principal, action, resource)")
    for command in ("set", "check"):
        told = run("policy", command, lake, "rules.cedar", "--json", code=2).json["error"]
        assert "cannot be read" in told["message"]
    assert run("policy", "check", lake).out.startswith("The lake has no policy")
    Path("rules.cedar").write_text(RULES)
    Path("rules.cedar").write_text('permit(principal, action, resource == Table::"nothing");')
    [doubt] = run("policy", "check", lake, "rules.cedar", "--json").json["doubts"]
    assert doubt.startswith("rule 1 names table 'nothing', which is not there")


def test_the_audit_lists_commits(run: Run, lake: str) -> None:
    entries = run("audit", lake, "--json").json["entries"]
    assert entries[0]["what"] == "wrote"
    assert entries[0]["commit"]
    assert run("audit", lake, "--denied", "--json").json["entries"] == []
    assert len(run("audit", lake, "--limit", "1").lines()) == 2
