"""The application: its groups of commands, and how an error becomes a message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any

import typer

from quire.cli.output import Output
from quire.errors import CommitUnknown, QuireError

INTERRUPTED = 130
BROKEN_PIPE = 141

EXIT_CODES = {
    0: "success",
    1: "unexpected error, or the doctor, verify or lint found a problem",
    2: "wrong usage or input",
    3: "not found, already there, or expired",
    4: "conflict: nothing was committed",
    5: "outcome unknown: it may have been committed",
    6: "refused",
    7: "the storage failed",
    8: "what is stored cannot be read",
    INTERRUPTED: "interrupted",
    BROKEN_PIPE: "the reader of stdout went away",
}
JSON = (
    'With --json the answer is one JSON document on stdout, and so is an error: {"error": {"kind": …, "message": …, '
    '"next": …, "retryable": …}} with the same exit code. Without it errors go to stderr.'
)

app = typer.Typer(
    name="quire",
    help="Many tables on object storage, one atomic commit.",
    epilog=f"Exit codes: {'; '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}. {JSON}",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
table_app = typer.Typer(help="Create, describe and change tables.", no_args_is_help=True, rich_markup_mode=None)
branch_app = typer.Typer(help="Lines of commits beside main.", no_args_is_help=True, rich_markup_mode=None)
tag_app = typer.Typer(help="Names for commits.", no_args_is_help=True, rich_markup_mode=None)
schema_app = typer.Typer(help="The schema of the graph.", no_args_is_help=True, rich_markup_mode=None)
stored_app = typer.Typer(help="Queries that are kept in the lake.", no_args_is_help=True, rich_markup_mode=None)

app.add_typer(table_app, name="table")
app.add_typer(branch_app, name="branch")
app.add_typer(tag_app, name="tag")
app.add_typer(schema_app, name="schema")
app.add_typer(stored_app, name="stored")

# What typer raises for a wrong command line; it exports only the leaf of this family.
_UsageError: Any = typer.BadParameter.__mro__[1]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quire {version('quire')}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="QUIRE_DEBUG", help="Show the traceback of an error.")
    ] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    context.obj["debug"] = debug


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command line and exit."""
    code = run(sys.argv[1:] if arguments is None else arguments)
    if code == INTERRUPTED:
        # A thread may still wait for stdin; an orderly exit would wait for it too, or abort.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; its exit code. Errors are printed, not raised."""
    output = Output(as_json="--json" in arguments)
    settings: dict[str, Any] = {"debug": False}
    try:
        code = typer.main.get_command(app).main(
            args=list(arguments), prog_name="quire", standalone_mode=False, obj=settings
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except QuireError as error:
        return _failed(output, error, settings)
    except _UsageError as error:
        return _wrong_usage(output, error)
    except typer.Abort:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`head`, say) has what it wanted. Python would complain when it closes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except SystemExit as exit_:  # typer ends this way on some broken pipes
        return BROKEN_PIPE if isinstance(exit_.__context__, BrokenPipeError) else int(exit_.code or 0)
    except Exception as error:
        unexpected = QuireError(
            f"Unexpected {type(error).__name__}: {error}",
            next="Run it again as `quire --debug …` and report the traceback.",
        )
        unexpected.__cause__ = error
        return _failed(output, unexpected, settings)


def _failed(output: Output, error: QuireError, settings: dict[str, Any]) -> int:
    if settings["debug"]:
        traceback.print_exception(error)
    if isinstance(error, CommitUnknown):
        error.next = (
            f"Do not run it again. `quire show LAKE {error.fields.get('slot')} --branch {error.fields.get('branch')}` "
            f"settles it: if its write is {error.fields.get('write')}, the commit is done."
        )
    output.error(error)
    return error.exit_code


def _wrong_usage(output: Output, error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    command = error.ctx.command_path if error.ctx is not None else "quire"
    wrong = QuireError(error.format_message(), next=f"`{command} --help` shows how it is used.")
    output.error(wrong, kind="usage")
    return 2
