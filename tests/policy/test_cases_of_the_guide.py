"""The twenty-six cases of the guide, asked of the policy that the guide has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quire.lake.guard.protocol import Who
from quire.policy.cases import Case, answer
from quire.policy.document import Document, read_tags
from quire.policy.rules import Rules

GUIDE = (Path(__file__).parents[2] / "docs/guides/policy.md").read_text()
POLICY, TAGS = re.search(r'policy\.set\(\n    """(.*?)""",\n    tags="""(.*?)"""', GUIDE, re.DOTALL).groups()  # type: ignore[union-attr]
LINES = re.findall(r"^\| (\w+) \| (\w*) ?\| (\w+) \| `([^`]+)` \| (\w+) \|$", GUIDE, re.MULTILINE)


@pytest.fixture(scope="module")
def rules() -> Rules:
    return Rules(Document(POLICY, read_tags(TAGS)), b"")


def test_there_are_twenty_six() -> None:
    assert len(LINES) == 26


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line[:4]))
def test_a_case_has_the_answer_of_the_guide(line: tuple[str, ...], rules: Rules) -> None:
    actor, role, action, on, expected = line
    case = Case(actor, action, on, expected, (role,) if role else ())  # type: ignore[arg-type]
    assert answer(rules, case).actual == expected


def test_a_steward_merges_what_somebody_else_approved(rules: Rules) -> None:
    eve = Who.of("eve", ["steward"])
    decided = [rules.decide(eve, "mergeInto", "Branch", "main", {"approvals": n}).allowed for n in (0, 1)]
    assert decided == [False, True]


def test_who_made_a_branch_may_merge_into_it(rules: Rules) -> None:
    bot = Who.of("bot", ["pipeline"])
    decided = [rules.decide(bot, "mergeInto", "Branch", "b", {}, owner=owner).allowed for owner in ("bot", "ada")]
    assert decided == [True, False]
