"""What assistive technology is told of every page, against files: roles, names, states and their order.

`QUIRE_WRITE_SNAPSHOTS=1 pytest tests/ui/test_pages.py` writes the files again. Look at what changes in them: it is what
somebody hears who does not see the page.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any

FILES = Path(__file__).parent / "snapshots"
VARIES = (
    (r"(?:\d+ (?:second|minute|hour)s? ago|just now)", "AGO"),
    (r"\b\d[\d,]* req\b", "N req"),
    (r"\b\d+ hops?\b", "N hops"),
    (r"\b\d[\d,.]* (?:B|KB|MB)\b", "SIZE"),
    (r"\b\d+(?:\.\d+)? ms\b", "N ms"),
    (r"N req · N hops(?: · SIZE)?", "COST"),
    (r"http://127\.0\.0\.1:\d+", "SERVER"),
    (r"definition: (?:\d[\d,]* of|\"\d+\"|none yet|slot \d+).*", "definition: N"),
    (r"text: \d+ requests .*", "text: what it cost"),
)
"""What differs from one run to the next, and what stands for it."""


def heard(page: Any) -> str:
    """The page as it is told, without what varies."""
    told: str = page.locator("body").aria_snapshot()
    text = "\n".join(line for line in told.splitlines() if "/url:" not in line)
    for pattern, stands in VARIES:
        text = re.sub(pattern, stands, text)
    return text + "\n"


def changed(page: Any, name: str) -> list[str]:
    """How what is told of a page differs from its file."""
    now, file = heard(page), FILES / f"{name}.yaml"
    if os.environ.get("QUIRE_WRITE_SNAPSHOTS"):
        FILES.mkdir(exist_ok=True)
        file.write_text(now, "utf-8")
    before = file.read_text("utf-8").splitlines() if file.exists() else []
    return list(difflib.unified_diff(before, now.splitlines(), file.name, f"{name} now", lineterm=""))
