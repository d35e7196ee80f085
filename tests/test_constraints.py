"""A fresh clone gets the same tools next year: every package has a version, no range is open above, hooks are local."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LINES = [line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if not line.startswith("#")]
VERSIONS = {canonicalize_name(name): Version(version) for name, _, version in (line.partition("==") for line in LINES)}

EXTRAS = {
    name: [Requirement(text) for text in texts] for name, texts in PROJECT["project"]["optional-dependencies"].items()
}
DIRECT = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
DECLARED = sorted(
    {str(r): r for r in [*DIRECT, *(r for extra in EXTRAS.values() for r in extra)] if r.name != "quire"}.items()
)


def needed(extra: str) -> list[Requirement]:
    """What an extra brings, those that it names included."""
    return [
        one
        for requirement in EXTRAS[extra]
        for one in (
            [r for name in sorted(requirement.extras) for r in needed(name)]
            if requirement.name == "quire"
            else [requirement]
        )
    ]


def installed(requirements: list[Requirement]) -> set[str]:
    """The names of all packages that these bring into the present environment."""
    found: set[str] = set()
    waiting = [(r, extra) for r in requirements for extra in (*r.extras, "")]
    met = set()
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in met:
            continue
        met.add((name, extra))
        found.add(name)
        for text in distribution(name).requires or ():
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({**default_environment(), "extra": extra}):  # type: ignore[arg-type]
                waiting += [(one, more) for more in (*one.extras, "")]
    return found


@pytest.mark.parametrize("line", LINES)
def test_a_constraint_is_a_name_and_a_version(line: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.]*", line)


def test_every_package_is_there_once_and_quire_is_not() -> None:
    assert len(VERSIONS) == len(LINES)
    assert "quire" not in VERSIONS


def test_everything_that_make_installs_has_a_version() -> None:
    assert installed([*DIRECT, *needed("dev")]) - set(VERSIONS) == set()


def test_what_installs_and_builds_has_a_version() -> None:
    build = {canonicalize_name(Requirement(text).name) for text in PROJECT["build-system"]["requires"]}
    assert {"pip", "editables", "pathspec", "pluggy", "tomlkit", "trove-classifiers", *build} - set(VERSIONS) == set()


def test_all_is_what_the_other_extras_of_users_bring() -> None:
    """An extra installs what Quire imports and nothing else, so that `quire[all]` is not a list of plans."""
    [everything] = EXTRAS["all"]
    assert everything.extras == set(EXTRAS) - {"all", "spec", "bench", "docs", "test", "dev"}
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    modules = {"PyJWT": "jwt"}  # where a package is imported by another name
    names = {one.name: modules.get(one.name, one.name) for one in needed("all")}
    unused = [name for name, module in names.items() if not re.search(rf"\b(import|from) {module}\b", sources)]
    assert unused == []


@pytest.mark.parametrize("requirement", [r for _, r in DECLARED], ids=[text for text, _ in DECLARED])
def test_a_dependency_has_an_upper_bound_and_its_version_is_within(requirement: Requirement) -> None:
    assert any(part.operator in ("<", "==", "~=") for part in requirement.specifier), "a major version may break it"
    version = VERSIONS.get(canonicalize_name(requirement.name))
    assert version is None or requirement.specifier.contains(version)


def test_make_installs_by_the_constraints() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    [pip] = [line for line in makefile.splitlines() if line.startswith("PIP ")]
    assert pip.endswith("-c constraints.txt")
    assert {"export PIP_CONSTRAINT := constraints.txt", "export PIP_BUILD_CONSTRAINT := constraints.txt"} <= set(
        makefile.splitlines()
    )
    rules = re.findall(r"^\$\((?:RUNTIME|DEV|BENCH)\): .*$", makefile, flags=re.MULTILINE)
    assert len(rules) == 3
    assert all("constraints.txt" in rule for rule in rules)


def test_hooks_run_the_tools_of_the_environment_and_nothing_from_elsewhere() -> None:
    [repo] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert repo["repo"] == "local"
    entries = [hook["entry"].split()[0] for hook in repo["hooks"]]
    assert [hook["language"] for hook in repo["hooks"]] == ["system"] * len(entries)
    assert {Path(entry).name for entry in entries} == {"ruff", "mypy", "lint-imports"}
    assert {str(Path(entry).parent) for entry in entries} == {".venv/bin"}
