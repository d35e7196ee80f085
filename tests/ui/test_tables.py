"""The page of a table, driven as people do: conditions by hand and in SQL, nearest rows, rows that are opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.ui.conftest import Opened, serving
from tests.ui.test_pages import keys

import quire


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on a table of places: text with an index, a vector each, a column called as a word of SQL."""
    lake = quire.create(tmp_path_factory.mktemp("places") / "demo", author="ada", backfill=False)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([float(n) for n in range(80)], pa.float32()), 2)
    about = pa.array([f"about {'lakes' if n % 2 else 'seas'}, the {n}th" for n in range(40)])
    columns = {"id": range(40), "order": [n % 4 for n in range(40)], "name": [f"it's {n}" for n in range(40)]}
    with lake.transaction() as tx:
        tx.create_table("places", pa.table({**columns, "about": about, "vector": vectors}), key="id")
        tx["places"].create_index("about", kind="text")
    lake.flush()
    with serving(demo=lake.uri) as url:
        yield url


def test_rows_are_narrowed_by_chips_and_searched_by_text_and_by_what_a_row_is_like(places: str, look: Opened) -> None:
    with look(places) as tab:
        page = tab.go("/ui/demo/table?name=places")
        page.get_by_role("button", name="Filter", exact=True).click()
        assert tab.violations() == []
        page.get_by_role("combobox", name="Column").select_option("order")
        page.get_by_role("combobox", name="Condition").select_option(">=")
        page.get_by_role("spinbutton", name="Value").fill("2")
        keys(page, "Enter")
        page.wait_for_selector(".count:has-text('20 rows')")
        sql = page.get_by_role("textbox", name="A condition in SQL")
        sql.fill("id >")
        keys(page, "Enter")
        page.wait_for_selector("[role=alert]:has-text('not a valid expression')")
        assert page.locator(".window").is_visible()  # what was there stays, with its chips
        assert page.locator(".filters .chip").count() == 1
        sql.fill("id < 10")
        keys(page, "Enter")
        page.wait_for_selector(".count:has-text('4 rows')")
        page.get_by_role("searchbox", name="Search the text").fill("lakes")
        keys(page, "Enter")
        page.wait_for_selector(".count:has-text('the 2 nearest')")
        assert page.get_by_role("button", name="Take away the text lakes").is_visible()
        assert tab.violations() == []
        page.get_by_role("button", name='Take away "order" >= 2').click()
        page.wait_for_selector(".count:has-text('the 5 nearest')")
        page.get_by_role("button", name="Clear all").click()
        page.wait_for_selector(".count:has-text('40 rows')")
        page.get_by_role("cell", name="it's 7", exact=True).click()
        page.get_by_role("button", name="Rows like this one").click()
        page.wait_for_selector(".chip:has-text('like id 7')")
        ids = page.locator(".window tbody tr td:nth-child(3)").all_inner_texts()
        assert (ids[0], set(ids[1:3])) == ("7", {"6", "8"})
        assert page.locator(".window thead .name").first.inner_text() == "_distance"
        page.locator(".window tbody tr").first.click()
        page.get_by_role("button", name="Only rows with this name").click()
        page.wait_for_selector(".count:has-text('the 1 nearest')")
        tab.go(page.url.removeprefix(places))
        assert page.locator(".filters .chip").count() == 2


def test_upkeep_is_tried_run_and_told(tmp_path: Path, look: Opened) -> None:
    lake = quire.create(tmp_path / "demo", author="ada", backfill=False)
    for n in range(6):
        with lake.transaction() as tx:
            (tx["t"].append if n else lambda rows: tx.create_table("t", rows))([{"id": n}])
    lake.tag("v1")
    with lake.snapshot().lease(60), serving(demo=lake.uri) as url, look(url) as tab:
        page = tab.go("/ui/demo/upkeep")
        assert page.get_by_role("region", name="Leases").get_by_text("ada").is_visible()
        assert page.get_by_role("region", name="Tags").get_by_text("v1").is_visible()
        page.get_by_role("button", name="Dry run: Optimize").click()
        page.wait_for_selector(".rows li:has-text('dry run') .chip.done")
        assert lake.refresh() == "6.0"
        page.get_by_role("button", name="Run: Optimize", exact=True).click()
        page.wait_for_function("() => document.querySelectorAll('.rows .chip.done').length === 2")
        assert tab.violations() == []
    assert lake.refresh() != "6.0"
