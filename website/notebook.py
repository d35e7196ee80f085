"""Runs a notebook without a kernel: one namespace, cell by cell, in an empty folder, with what each cell shows."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from website import markdown
from website.markdown import Heading, Links, Section


@dataclass(frozen=True)
class Cell:
    is_code: bool
    source: str
    printed: str = ""
    value: str = ""
    """The value of the last expression as HTML, empty where it is None."""


def cells(path: Path) -> list[Cell]:
    """The cells as they are stored."""
    stored = json.loads(path.read_text("utf-8"))
    return [Cell(each["cell_type"] == "code", "".join(each["source"])) for each in stored["cells"]]


def run(path: Path) -> list[Cell]:
    """The cells with what they print and show."""
    module, stored = types.ModuleType("__notebook__"), cells(path)
    with _elsewhere() as folder:
        ran = [_ran(cell, number, module) if cell.is_code else cell for number, cell in enumerate(stored, 1)]
    return [
        replace(cell, printed=cell.printed.replace(folder, "…"), value=cell.value.replace(folder, "…")) for cell in ran
    ]


def _ran(cell: Cell, number: int, module: types.ModuleType) -> Cell:
    tree = ast.parse(cell.source, f"cell {number}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), module.__dict__)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), module.__dict__)  # type: ignore[attr-defined]
    return Cell(True, cell.source, printed.getvalue(), "" if value is None else shown(value))


def shown(value: Any) -> str:
    """A value as a notebook shows it, in the styles of the page."""
    if hasattr(value, "_repr_html_"):
        return re.sub(r"<style.*?</style>", "", str(value._repr_html_()), flags=re.DOTALL)
    return f"<pre>{escape(repr(value))}</pre>"


@contextlib.contextmanager
def _elsewhere() -> Iterator[str]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def render(ran: list[Cell], links: Links) -> tuple[str, list[Heading], list[Section]]:
    """The inside of its page."""
    html, headings, sections = [], [], []
    for cell in ran:
        if not cell.is_code:
            part = markdown.render(cell.source, links)
            html.append(part.html)
            headings += part.headings
            sections += part.sections
            continue
        html.append(markdown.code_block(cell.source + "\n", "python", links))
        if sections:
            sections[-1].text.append(cell.source)
        if cell.printed:
            html.append(f'<div class="output"><pre tabindex="0">{escape(cell.printed)}</pre></div>\n')
        if cell.value:
            html.append(f'<div class="output" tabindex="0">{cell.value}</div>\n')
    return "".join(html), headings, sections
