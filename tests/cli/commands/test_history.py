"""The lake and its history."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run, rows

import quire


def test_a_lake_is_made_once(run: Run) -> None:
    made = run("init", "new", "--json").json
    assert made["head"] == "0.0"
    assert made["branch"] == "main"
    assert quire.open("new").tables() == []

    assert run("init", "new", "--json", code=3).json["error"]["kind"] == "lake-exists"
    assert run("init", "new", "--exist-ok", "--json").json == made
    assert run("init", "other", "--author", "ada").out.startswith("lake at ")
    assert run("log", "other", "--json").json["commits"][0]["author"] == "ada"


def test_no_lake_is_made_inside_another(run: Run, lake: str) -> None:
    for place in (f"{lake}/inner", f"{lake}/tables/deep/inner"):
        error = run("init", place, "--json", code=2).json["error"]
        assert error["kind"] == "invalid-input"
        assert "inside the lake" in error["message"]
        assert not Path(place).exists()


def test_a_lake_among_other_files_is_made_with_a_warning(run: Run) -> None:
    Path("mixed").mkdir()
    assert run("init", "mixed").err == ""  # it was empty
    for name in ("full", "told"):
        Path(name).mkdir()
        Path(name, "notes.txt").write_text("x")
    assert "holds other files" in run("init", "full").err
    assert run("init", "told", "--json").err == ""
    assert run("init", "told", "--exist-ok").err == ""


def test_status_says_where_a_branch_stands(run: Run, lake: str) -> None:
    found = run("status", lake, "--json").json
    assert (found["head"], found["tables"], found["rows"], found["pending_backfill"]) == ("2.0", 2, 5, [])
    assert ["head", "2.0"] in run("status", lake).lines()


def test_the_graph_has_a_lane_for_a_branch_that_was_merged(run: Run, lake: str) -> None:
    run("branch", "create", lake, "exp")
    table = run("tables", lake, "--json").json["tables"][0]["name"]
    run("table", "create", lake, "made", "--schema", "id:int64", "-b", "exp", "-m", "on exp")
    run("branch", "ff", lake, "exp", "-m", "take over")
    told = run("log", lake, "--graph").out.splitlines()
    assert [line.split("  ")[0] for line in told][:4] == ["●", "├─╮", "│ ●", "├─╯"]
    assert "exp:3.0" in told[2]
    assert "on exp" in told[2]
    found = run("log", lake, "--graph", "--json", "-n", "2").json["commits"]
    assert [(c["branch"], c["message"], c["lane"]) for c in found] == [("main", "take over", 0), ("exp", "on exp", 1)]
    assert found[0]["parents"][1] == f"{found[1]['log']}:3.0"
    assert run("log", lake, "--graph", "-t", table, code=2).err


def test_status_says_whether_processes_share_slots(run: Run, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("status", lake, "--json").json["offers"] == {"on": True, "waiting": 0}
    assert "offers: on, 0 commits waiting" in run("status", lake).out
    monkeypatch.setenv("QUIRE_OFFERS", "0")
    assert run("status", lake, "--json").json["offers"] == {"on": False, "waiting": 0}
    assert "offers: off" in run("status", lake).out


def test_the_log_is_newest_first(run: Run, lake: str) -> None:
    found = run("log", lake, "--json").json
    assert found["branch"] == "main"
    assert [(c["id"], c["message"]) for c in found["commits"]] == [
        ("2.0", "second"),
        ("1.0", "first"),
        ("0.0", "create lake"),
    ]
    assert found["commits"][0]["author"] == "tester"
    assert [line[0] for line in run("log", lake).lines()] == ["commit", "2.0", "1.0", "0.0"]


def test_the_log_is_cut_and_filtered(run: Run, lake: str) -> None:
    for _ in range(25):
        run("append", lake, "events", "-", "--format", "csv", stdin="id,v\n1,1\n")

    def ids(*options: str) -> list[str]:
        return [c["id"] for c in run("log", lake, *options, "--json").json["commits"]]

    assert len(ids()) == 20
    assert len(ids("--limit", "0")) == 28
    assert ids("-n", "1") == ["27.0"]
    assert ids("--table", "people") == ["2.0", "1.0"]


def test_the_log_of_a_table_that_never_was_is_an_error(run: Run, lake: str) -> None:
    error = run("log", lake, "-t", "poeple", "--json", code=3).json["error"]
    assert (error["kind"], error["next"]) == ("table-not-found", "Did you mean 'people'?")

    run("table", "drop", lake, "events")
    assert [c["id"] for c in run("log", lake, "-t", "events", "--json").json["commits"]] == ["3.0", "1.0"]


def test_the_log_says_that_its_times_are_utc(run: Run, lake: str) -> None:
    assert run("log", lake).out.splitlines()[0].split("  ")[1].strip() == "time (UTC)"


def test_a_tag_names_a_commit_to_show_or_revert(run: Run, lake: str) -> None:
    run("tag", "create", lake, "wrong", "--at", "2.0")
    assert run("show", lake, "wrong", "--json").json["id"] == "2.0"
    assert run("revert", lake, "wrong", "--json").json["commit"] == "3.0"
    assert run("show", lake, "3.0", "--json").json["reverts"] == "2.0"


def test_a_tag_of_another_branch_names_its_commit(run: Run, lake: str) -> None:
    run("branch", "create", lake, "exp")
    run("delete", lake, "people", "id = 1", "-b", "exp", "-m", "on exp")
    run("tag", "create", lake, "there", "-b", "exp")
    assert run("show", lake, "there", "--json").json["message"] == "on exp"
    assert run("revert", lake, "there", "--json", code=3).json["error"]["kind"] == "commit-not-found"


def test_a_commit_is_shown(run: Run, lake: str) -> None:
    found = run("show", lake, "2.0", "--json").json
    assert found["message"] == "second"
    assert found["parents"] == ["1.0"]
    assert found["tables"] == {"people": {"version": 2, "ops": ["upsert"], "added": 2, "removed": 1}}
    assert found["write"] == quire.open(lake, read_only=True).show("2.0").write

    text = run("show", lake, "2")
    assert ["people", "upsert", "2", "1", "2"] in text.lines()
    assert ["write", found["write"]] in text.lines()


def test_what_a_commit_took_is_shown_when_asked_for(run: Run, lake: str) -> None:
    receipt = run("append", lake, "events", "-", "--format", "csv", "--json", stdin="id,v\n1,1\n").json
    found = run("show", lake, receipt["commit"], "--json").json["cost"]
    for what in ("requests", "external", "hops", "retries", "bytes_in", "shared"):
        assert found[what] == receipt["cost"][what], what
    assert "publish" not in found["phases"]

    text = run("show", lake, receipt["commit"], "--cost")
    lines = [line.split("  ", 1) for line in text.out.splitlines()]
    shown = {name: rest.strip() for name, rest in (line for line in lines if len(line) == 2)}
    assert shown["requests by Quire"] == "1 (create 1)"
    assert shown["requests by Lance"] == str(receipt["cost"]["external"]["lance"])
    assert shown["hops"] == str(receipt["cost"]["hops"])
    assert (shown["retries"], shown["commits in the slot"]) == ("0", "1")
    for name, seconds in found["phases"].items():
        assert shown[f"time, {name}"] == f"{1000 * seconds:.1f} ms"
    assert "requests by Quire" not in run("show", lake, receipt["commit"]).out


def test_a_commit_that_does_not_say_what_it_took(run: Run, lake: str) -> None:
    assert run("show", lake, "0.0", "--json").json["cost"] is None
    assert run("show", lake, "0.0", "--cost").out.endswith("what this commit took was not recorded\n")


def test_the_log_does_not_list_costs(run: Run, lake: str) -> None:
    assert all("cost" not in commit for commit in run("log", lake, "--json").json["commits"])


def test_status_says_what_opening_took(run: Run, lake: str) -> None:
    cost = run("status", lake, "--json").json["cost"]
    assert cost["requests"] == {"get": cost["total"]}
    told = [line for line in run("status", lake).out.splitlines() if line.startswith("opening the lake took ")]
    assert len(told) == 1
    assert f" {cost['total']} requests, {cost['hops']} hops, 0 retries, " in told[0]


@pytest.mark.parametrize(("commit", "code"), [("99.0", 3), ("x", 3), ("not a word", 2)])
def test_a_commit_that_is_not_there_is_not_shown(run: Run, lake: str, commit: str, code: int) -> None:
    assert commit in run("show", lake, commit, code=code).err


def test_a_commit_of_another_branch_is_shown(run: Run, lake: str) -> None:
    run("branch", "create", lake, "exp")
    run("delete", lake, "people", "id = 1", "-b", "exp", "-m", "on exp")
    run("delete", lake, "people", "id = 2", "-m", "on main")

    assert run("show", lake, "3.0", "--json").json["message"] == "on main"
    assert run("show", lake, "3.0", "--branch", "exp", "--json").json["message"] == "on exp"
    assert run("show", lake, "exp:3.0", "--json").json["message"] == "on exp"


def test_a_commit_is_reverted_by_a_new_one(run: Run, lake: str) -> None:
    ran = run("revert", lake, "2.0", "-m", "back", "--author", "ada", "--json").json
    assert ran["commit"] == "3.0"
    assert [row["name"] for row in rows(lake, "people")] == ["Ada", "Bob"]
    shown = run("show", lake, "3.0", "--json").json
    assert (shown["message"], shown["author"], shown["reverts"]) == ("back", "ada", "2.0")


def test_a_revert_of_rows_changed_since_exits_4(run: Run, lake: str) -> None:
    run("upsert", lake, "people", "-", "--format", "jsonl", stdin='{"id": 2, "name": "Robert"}')
    assert run("revert", lake, "2.0", "--json", code=4).json["error"]["kind"] == "conflict"


# -- diff --------------------------------------------------------------------------------------------------------------


def test_diff_shows_rows_added_changed_and_removed(run: Run, lake: str) -> None:
    run("delete", lake, "people", "id = 1")
    found = run("diff", lake, "1.0", "3.0", "--json").json

    assert (found["before"], found["after"]) == ("1.0", "3.0")
    [people] = found["tables"]
    assert (people["table"], people["kind"]) == ("people", "changed")
    assert (people["added"], people["changed"], people["removed"]) == (1, 1, 1)
    assert people["rows"] == {
        "added": [{"id": 3, "name": "Cy"}],
        "changed": [{"before": {"id": 2, "name": "Bob"}, "after": {"id": 2, "name": "Bobby"}}],
        "removed": [{"id": 1, "name": "Ada"}],
    }
    assert run("diff", lake, "1.0").out.splitlines() == [
        "1.0 → 3.0",
        "",
        "people (changed): 1 added, 1 changed, 1 removed",
        "  + id=3, name=Cy",
        "  ~ id=2, name=Bob",
        "  → id=2, name=Bobby",
        "  - id=1, name=Ada",
    ]


def test_of_a_changed_row_the_key_and_what_changed_are_shown(run: Run, lake: str) -> None:
    run("table", "add-column", lake, "people", "note", "--expr", "'same'")
    run("table", "add-column", lake, "people", "nick", "--type", "string")
    run("update", lake, "people", "id = 1", "--value", "nick=")
    assert run("diff", lake, "4.0", "-t", "people").out.splitlines()[3:] == ["  ~ id=1, nick=NULL", '  → id=1, nick=""']


def test_a_claimed_branch_refuses_those_who_were_there_before(run: Run, lake: str) -> None:
    early = quire.open(lake)
    assert run("claim", lake, "--json").json == {"branch": "main", "epoch": 1}
    with pytest.raises(quire.errors.Fenced), early.transaction() as tx:
        tx["events"].delete("true")
    run("delete", lake, "events", "id = 1")
    run("branch", "create", lake, "exp")
    assert run("claim", lake, "-b", "exp").out.startswith("claimed exp, epoch ")


def test_diff_shows_some_rows_and_counts_all(run: Run, lake: str) -> None:
    run("append", lake, "events", "-", "--format", "csv", stdin="id,v\n" + "".join(f"{i},0\n" for i in range(10, 20)))

    [events] = run("diff", lake, "2.0", "--rows", "3", "--json").json["tables"]
    assert events["added"] == 10
    assert len(events["rows"]["added"]) == 3
    assert "… and 7 more added" in run("diff", lake, "2.0", "--rows", "3").out
    [events] = run("diff", lake, "2.0", "--rows", "0", "--json").json["tables"]
    assert events["added"] == 10
    assert events["rows"]["added"] == []


def test_diff_shows_tables_that_came_and_went(run: Run, lake: str) -> None:
    run("table", "drop", lake, "events")
    run("table", "create", lake, "new", "--from", "-", "--format", "csv", stdin="id\n7\n")

    found = {t["table"]: t for t in run("diff", lake, "2.0", "--json").json["tables"]}
    assert (found["events"]["kind"], found["events"]["removed"]) == ("dropped", 2)
    assert {"id": 1, "v": 1.5} in found["events"]["rows"]["removed"]
    assert (found["new"]["kind"], found["new"]["rows"]["added"]) == ("created", [{"id": 7}])


def test_diff_shows_columns_that_came_and_went(run: Run, lake: str) -> None:
    run("table", "add-column", lake, "people", "age", "--type", "int32")
    assert run("diff", lake, "2.0", "--json").json["tables"][0]["columns"]["added"] == ["age"]
    assert "columns added: age" in run("diff", lake, "2.0").out


def test_diff_takes_tags_and_branches_and_one_table(run: Run, lake: str) -> None:
    run("tag", "create", lake, "v1", "--at", "1.0")
    run("branch", "create", lake, "exp")
    run("delete", lake, "people", "id = 1", "-b", "exp")
    run("table", "create", lake, "only", "--from", "-", "--format", "csv", "-b", "exp", stdin="id\n7\n")

    found = {t["table"]: t for t in run("diff", lake, "main", "exp", "--json").json["tables"]}
    assert found["people"]["rows"]["removed"] == [{"id": 1, "name": "Ada"}]
    assert found["only"]["rows"]["added"] == [{"id": 7}]
    assert [t["table"] for t in run("diff", lake, "v1", "exp", "-t", "only", "--json").json["tables"]] == ["only"]
    assert run("diff", lake, "v1", "--table", "nope", "--json", code=3).json["error"]["kind"] == "table-not-found"


def test_no_difference_is_said(run: Run, lake: str) -> None:
    assert run("diff", lake, "2.0", "2.0").out == "2.0 → 2.0: no difference\n"


def test_tables_are_restored_by_a_new_commit(run: Run, lake: str) -> None:
    before = run("tables", lake, "--at", "1.0", "--json").json
    ran = run("restore", lake, "1.0", "-m", "back", "--author", "ada", "--json").json
    assert run("show", lake, ran["commit"], "--json").json["message"] == "back"
    after = run("tables", lake, "--json").json
    assert [(t["name"], t["rows"]) for t in after["tables"]] == [(t["name"], t["rows"]) for t in before["tables"]]
    assert run("restore", lake, "1.0", "-t", "nothing", "--json", code=3).json["error"]["kind"] == "table-not-found"
    assert run("restore", lake, "2020-01-01", "--json", code=3).json["error"]["kind"] == "commit-not-found"
