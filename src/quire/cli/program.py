"""The application: its groups of commands, and how an error becomes a message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

import quire
from quire.cli import completion
from quire.cli.lazy_group import SERVER, LazyGroup
from quire.errors import CommitUnknown, InvalidInput, QuireError, shown

if TYPE_CHECKING:
    from quire.cli.output import Output

NOTHING = "interrupted; nothing was committed"
UNSURE = "interrupted; nothing was committed, unless `quire log` shows it"


def is_interrupt(error: BaseException) -> bool:
    """Whether the user stopped it. What DuckDB says may have been wrapped on its way."""
    return any(_stopped(one) for one in _chain(error))


def _stopped(error: BaseException) -> bool:
    if isinstance(error, KeyboardInterrupt):
        return True
    # DuckDB takes the signal while a query runs and raises its own. It is told by name: it need not be loaded for this.
    if type(error).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        return type(error).__name__ == "InterruptException"
    return isinstance(error, RuntimeError) and str(error) == "Query interrupted"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came of."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


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
    cls=LazyGroup,
    help="Change many Lance tables in one atomic commit.",
    epilog=f"Exit codes: {'; '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}. {JSON}",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# What typer raises for a wrong command line; it exports only the leaf of this family.
_UsageError: Any = typer.BadParameter.__mro__[1]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quire {quire.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            envvar="QUIRE_SERVER",
            help="Work through this server: LAKE is the name of a lake there. $QUIRE_SERVER_TOKEN says who asks.",
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="QUIRE_DEBUG", help="Show the traceback of an error.")
    ] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    shell: Annotated[
        completion.Shell | None,
        typer.Option(
            "--completion",
            callback=completion.print_script,
            is_eager=True,
            help="Print the completion script of a shell and exit.",
        ),
    ] = None,
) -> None:
    context.obj["debug"] = debug
    SERVER.set(server)
    if server is not None and context.invoked_subcommand in ("serve", "token"):
        raise InvalidInput(
            f"quire {context.invoked_subcommand} is about a server on this machine.", next="Leave --server out."
        )


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
    settings: dict[str, Any] = {"debug": False, "json": "--json" in arguments}
    try:
        _check_text(arguments)
        completion.start()
        code = typer.main.get_command(app).main(
            args=list(arguments), prog_name="quire", standalone_mode=False, obj=settings
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except QuireError as error:
        return _failed(error, settings)
    except _UsageError as error:
        return _wrong_usage(error, settings)
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
        return _failed(unexpected, settings)


def _check_text(arguments: Sequence[str]) -> None:
    """Refuse words that are no text: neither a lake nor a message could hold them."""
    for number, word in enumerate(arguments, 1):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InvalidInput(
                f"Word {number} of the command line is not UTF-8: {shown(word)}.",
                next="Write it in UTF-8; rename a file that is called so.",
            ) from None


def _output(settings: dict[str, Any]) -> Output:
    from quire.cli.output import Output

    return Output(as_json=settings["json"])


def _failed(error: QuireError, settings: dict[str, Any]) -> int:
    if settings["debug"]:
        traceback.print_exception(error)
    if isinstance(error, CommitUnknown):
        error.next = (
            f"Do not run it again. `quire show LAKE {error.fields.get('slot')} --branch {error.fields.get('branch')}` "
            f"settles it: if its write is {error.fields.get('write')}, the commit is done."
        )
    _output(settings).error(error)
    return error.exit_code


def _wrong_usage(error: Any, settings: dict[str, Any]) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    command = error.ctx.command_path if error.ctx is not None else "quire"
    wrong = QuireError(error.format_message(), next=f"`{command} --help` shows how it is used.")
    _output(settings).error(wrong, kind="usage")
    return 2
