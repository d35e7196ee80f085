"""Groups of commands that are imported when they are used: help and completion of names import none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from quire.cli.command_table import SECTIONS, Entry

SERVER: ContextVar[str | None] = ContextVar("server", default=None)
"""The server that `--server` names, for all commands: lakes are names there."""
TOKEN_VARIABLE = "QUIRE_SERVER_TOKEN"
"""Holds the token that says who asks a server."""

_registered: dict[str, tuple[Callable[..., Any], type[TyperCommand]]] = {}


def register(name: str, function: Callable[..., Any], cls: type[TyperCommand]) -> None:
    """Say what runs a command, by its full name such as `table create`."""
    _registered[name] = function, cls


class LazyGroup(TyperGroup):
    """A group of which a command is imported when somebody asks for it."""

    def __init__(
        self,
        *,
        sections: Mapping[str, Mapping[str, Entry]] = SECTIONS,
        prefix: str = "",
        commands: Any = None,  # typer gives what is registered with it: nothing
        **attributes: Any,
    ) -> None:
        super().__init__(**attributes)
        self.sections = sections
        entries = {name: entry for section in sections.values() for name, entry in section.items()}
        self.commands: Any = _Commands(entries, prefix)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The names and summaries by section, in one column over all of them."""
        width = max(map(len, self.commands))
        for title, entries in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in entries.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The names of commands, and the options of the group."""
        from typer._click.shell_completion import CompletionItem

        found = {n: e for section in self.sections.values() for n, e in section.items() if n.startswith(incomplete)}
        options = super(TyperGroup, self).shell_complete(ctx, incomplete)
        return [*(CompletionItem(name, help=entry.summary) for name, entry in found.items()), *options]


def _subgroup(name: str, entry: Entry) -> LazyGroup:
    commands = {inner: Entry(entry.module, summary) for inner, summary in entry.commands.items()}
    return LazyGroup(
        sections={"Commands": commands},
        prefix=f"{name} ",
        name=name,
        help=entry.summary,
        no_args_is_help=True,
        rich_markup_mode=None,
    )


class _Commands(Mapping[str, Any]):
    """The commands of a group by name."""

    def __init__(self, entries: Mapping[str, Entry], prefix: str) -> None:
        self._entries, self._prefix = entries, prefix

    def __getitem__(self, name: str) -> Any:
        entry = self._entries[name]
        return _subgroup(name, entry) if entry.commands else _loaded(self._prefix, name, entry.module)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _loaded(prefix: str, name: str, module: str) -> Any:
    import_module(f"quire.cli.commands.{module}")
    function, cls = _registered[prefix + name]
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=cls)(function)
    return typer.main.get_command(alone)
