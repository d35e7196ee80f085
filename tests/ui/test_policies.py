"""Pages of somebody whom a policy lets see a part: tables that are denied, rows and columns that are hidden, masks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ui.conftest import Opened, serving
from tests.ui.test_pages import keys

import quire
from quire.server.auth.keys import KeyFile

POLICY = """
permit(principal in Role::"analyst", action in Action::"read", resource in Lake::"lake")
unless { resource in Table::"salaries" || resource == Column::"people/note" };
forbid(principal in Role::"analyst", action == Action::"readRow", resource in Table::"people")
unless { resource.dept == "open" };
@id("last digits") @mask("last4")
permit(principal in Role::"analyst", action == Action::"readColumn", resource == Column::"people/card");
"""
SECRETS = ("salaries", "777555", "S-note", "closed-dept", "4000-1234")
PAGES = {
    "tables": "people", "table?name=people": "open", "commits": "no message", "commit?id=1.0": "no message",
    "compare?a=1.0&b=2.0": "people", "sql": "Write a query", "graph": "no graph yet", "schema": "No types yet",
    "requests": "No open requests", "live": "Waiting", "upkeep": "You may not see this",
}  # fmt: skip


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Any]]]:
    """A server on a lake with a policy, and the header of an analyst who may only read."""
    folder: Path = tmp_path_factory.mktemp("policies")
    lake = quire.create(folder / "demo", author="root", backfill=False)
    with lake.transaction("Hire them") as tx:
        people = [
            {"id": n, "dept": ("open", "closed-dept")[n % 2], "note": f"S-note {n}", "card": f"4000-1234-{1000 + n}"}
            for n in range(40)
        ]
        tx.create_table("people", people, key="id")
        tx.create_table("salaries", [{"id": n, "amount": 777555 + n} for n in range(3)], key="id")
    with lake.transaction("Pay them") as tx:
        tx["people"].update({"note": "'S-note again'"}, where="id = 2")
        tx["people"].update({"dept": "'open'"}, where="id = 5")
        tx["salaries"].append([{"id": 9, "amount": 777555}])
    lake.policy.set(POLICY)
    lake.flush()
    token = KeyFile(folder / "keys.json").create("ada", ["read"], policy_roles=["analyst"])[1]
    with serving(demo=lake.uri, keys=folder / "keys.json") as url:
        yield url, {"extra_http_headers": {"authorization": f"Bearer {token}"}}


def test_what_is_denied_is_on_no_page_and_what_may_not_be_done_has_no_button(
    hidden: tuple[str, dict[str, Any]], look: Opened
) -> None:
    url, how = hidden
    with look(url, **how) as tab:
        answers: list[str] = []
        tab.page.on("response", lambda got: answers.append(got.text()) if "/ui/demo/" in got.url else None)
        for path, word in PAGES.items():
            page = tab.go(f"/ui/demo/{path}")
            page.get_by_text(word).first.wait_for(timeout=8_000)
            assert (path, tab.violations()) == (path, [])
            for name in ("Revert", "Branch", "Tag", "New request", "Merge"):
                assert page.get_by_role("button", name=name, exact=True).count() == 0, (path, name)
        told = "".join(answers)
        assert len(answers) > len(PAGES)  # each page, and the parts that it asked for
        assert [secret for secret in SECRETS if secret in told] == []


def test_rows_are_left_out_columns_are_absent_or_masked_and_a_denied_table_is_not_there(
    hidden: tuple[str, dict[str, Any]], look: Opened
) -> None:
    url, how = hidden
    with look(url, **how) as tab:
        page = tab.go("/ui/demo/table?name=people")
        assert page.locator(".count").inner_text() == "21 rows"
        assert page.locator(".window thead .name").all_inner_texts() == ["id", "dept", "card"]
        cards = page.locator(".window tbody td:nth-child(4)").all_inner_texts()
        assert all(card.endswith(f"{1000 + int(id)}") for card, id in zip(
            cards, page.locator(".window tbody td:nth-child(2)").all_inner_texts(), strict=True
        ))  # fmt: skip
        page.get_by_role("textbox", name="A condition in SQL").fill("card = '4000-1234-1002'")
        keys(page, "Enter")
        page.wait_for_selector("[role=alert]:has-text('card')")
        page = tab.go("/ui/demo/table?name=salaries")
        assert page.get_by_role("heading", name="There is no such thing").is_visible()
        page.get_by_role("link", name="All tables").click()
        page.wait_for_selector("h1:has-text('Tables')")
        keys(page, "Control+k")
        page.get_by_role("combobox", name="Search everything").fill("sal")
        page.wait_for_selector("text=Nothing has this in its name")
        page = tab.go("/ui/demo/sql?query=select+*+from+salaries")
        page.wait_for_selector("[role=alert]:has-text('salaries')")
        assert "777555" not in page.content()
