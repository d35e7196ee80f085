"""Print the reference of the command line as Markdown, from the commands themselves.

    python -m quire.cli.reference > docs/reference/cli.md

The text depends on nothing but the code: not on the terminal, its width or its colours.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import typer.main

from quire import errors
from quire.cli.program import EXIT_CODES, JSON


def commands() -> Iterator[tuple[str, Any]]:
    """Every visible command with its full name (`quire table create`), groups before what they hold."""
    from quire.cli import app

    yield from _walk("quire", typer.main.get_command(app))


def render() -> str:
    """The whole page."""
    parts = [
        "# Command line",
        "Written by `python -m quire.cli.reference`: change the commands, not this page.",
        *(_command(name, command) for name, command in commands()),
        _exit_codes(),
    ]
    return "\n\n".join(parts) + "\n"


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for child_name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from _walk(f"{name} {child_name}", child)


def _command(name: str, command: Any) -> str:
    params = [p for p in command.params if not getattr(p, "hidden", False)]
    arguments = [p for p in params if p.param_type_name == "argument"]
    options = [p for p in params if p.param_type_name == "option"]
    parts = [f"## {name}", f"```text\n{_usage(name, command, arguments)}\n```"]
    if text := _prose(command.help):
        parts.append(text)
    if arguments:
        parts.append(_table(("argument", "meaning"), [(f"`{_metavar(p)}`", _meaning(p)) for p in arguments]))
    if options:
        parts.append(_table(("option", "meaning"), [(_spelling(p), _meaning(p)) for p in options]))
    if children := [(n, c) for n, c in getattr(command, "commands", {}).items() if not c.hidden]:
        parts.append(_table(("command", "meaning"), [(f"`{name} {n}`", _summary(c)) for n, c in children]))
    return "\n\n".join(parts)


def _usage(name: str, command: Any, arguments: list[Any]) -> str:
    words = [name, "[OPTIONS]"]
    for argument in arguments:
        word = _metavar(argument) + ("..." if argument.nargs == -1 else "")
        words.append(word if argument.required else f"[{word}]")
    if hasattr(command, "commands"):
        words.append("COMMAND ...")
    return " ".join(words)


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _spelling(option: Any) -> str:
    names = ", ".join(f"`{n}`" for n in option.opts)
    if option.secondary_opts:
        names += " / " + ", ".join(f"`{n}`" for n in option.secondary_opts)
    if option.is_flag or option.count:
        return names
    choices = getattr(getattr(option, "type_descriptor", None) or option.type, "choices", None) or ()
    value = option.metavar or "|".join(str(getattr(c, "value", c)) for c in choices) or option.name.upper()
    return f"{names} `{value}`"


def _meaning(param: Any) -> str:
    text = " ".join(_prose(param.help).split())
    notes = []
    if param.required and param.param_type_name == "option":
        notes.append("required")
    if getattr(param, "multiple", False):
        notes.append("may be given several times")
    if isinstance(param.default, (str, int, float)) and not isinstance(param.default, bool) and param.default != "":
        notes.append(f"default: `{getattr(param.default, 'value', param.default)}`")
    if param.envvar:
        variables = [param.envvar] if isinstance(param.envvar, str) else param.envvar
        notes.append("from " + ", ".join(f"`{v}`" for v in variables))
    return f"{text} ({'; '.join(notes)})".strip() if notes else text


def _summary(command: Any) -> str:
    return " ".join(_prose(command.short_help or command.help).split("\n\n")[0].split())


def _prose(text: str | None) -> str:
    """Help text as Markdown: without the marks that only a terminal understands."""
    return inspect.cleandoc((text or "").split("\f")[0].replace("\b\n", "")).strip()


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _exit_codes() -> str:
    kinds: dict[int, list[str]] = {}
    for error in _tree(errors.QuireError):
        kinds.setdefault(error.exit_code, []).append(f"`{error.kind}`")
    rows = [(str(code), meaning, ", ".join(kinds.get(code, ()))) for code, meaning in EXIT_CODES.items()]
    return "\n\n".join(["## Exit codes", _table(("code", "meaning", "kinds of error"), rows), "## JSON", JSON])


def _tree(error: type[errors.QuireError]) -> Iterator[type[errors.QuireError]]:
    yield error
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _tree(child)


if __name__ == "__main__":
    print(render(), end="")
