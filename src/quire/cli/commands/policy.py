"""Who may do what in a lake: its policy, and what was refused."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quire.cli.options import Session, command
from quire.errors import Refused

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="Rules in Cedar.")]
OtherPolicy = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="Another policy than the one that holds.")
]
TagsFile = Annotated[
    Path | None, typer.Option("--tags", metavar="FILE", help="Tags of tables, columns and branches, in TOML.")
]


@command("policy show", branch=False)
def show(
    session: Session,
    generation: Annotated[
        int | None, typer.Option("--generation", metavar="N", help="An earlier one, by its number.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="List every generation, newest first.")] = False,
) -> None:
    """Show the policy that holds, with its author."""
    policies = session.read().policy
    if log:
        found = policies.log()
        if session.output.as_json:
            session.output.document({"policies": [one.to_dict() for one in found]})
            return
        rows = [(p.generation, p.author, f"{p.time:%Y-%m-%d %H:%M:%S}", p.message) for p in found]
        session.output.table(("generation", "author", "time (UTC)", "message"), rows)
        return
    newest = policies.show(generation)
    if session.output.as_json:
        session.output.document({"policy": None if newest is None else newest.to_dict()})
        return
    if newest is None:
        session.output.line("no policy: everybody who may open the lake may do everything")
        return
    session.output.line(f"// generation {newest.generation} by {newest.author}, {newest.time:%Y-%m-%d %H:%M:%S} UTC")
    for line in newest.text.strip().splitlines():
        session.output.line(line)


@command("policy set", branch=False, writes=True)
def set_(
    session: Session,
    policy: PolicyFile,
    tags: TagsFile = None,
    message: Annotated[str, typer.Option("-m", "--message", help="Why, in one line.")] = "",
) -> None:
    """Let a policy hold from now on. Servers know it within a second."""
    with session.write() as lake:
        found = lake.policy.set(policy, tags=tags, message=message)
        doubts = lake.policy.check()
    if session.output.as_json:
        session.output.document({**found.to_dict(), "doubts": doubts})
        return
    session.output.line(f"generation {found.generation} holds")
    for doubt in doubts:
        session.output.line(f"note: {doubt}")


@command("policy check", branch=False)
def check(
    session: Session,
    policy: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Rules in Cedar. Default: the policy that holds.")
    ] = None,
    tags: TagsFile = None,
) -> None:
    """Check the rules of a policy, and the names in it."""
    doubts = session.read().policy.check(policy, tags=tags)
    if session.output.as_json:
        session.output.document({"doubts": doubts})
        return
    for doubt in doubts:
        session.output.line(doubt)
    if not doubts:
        session.output.line("no doubts")


@command("policy test", branch=False)
def ask_cases(
    session: Session,
    cases: Annotated[Path, typer.Argument(metavar="CASES", help="A file of cases, in TOML.")],
    policy: OtherPolicy = None,
    tags: TagsFile = None,
) -> None:
    """Ask a policy the cases of a file: who may do what."""
    answers = session.read().policy.test(cases, policy=policy, tags=tags)
    wrong = [one for one in answers if not one.ok]
    if session.output.as_json:
        session.output.document({"cases": [one.to_dict() for one in answers], "wrong": len(wrong)})
    else:
        rows = [
            ("ok" if a.ok else "WRONG", a.case.actor, a.case.action, a.case.on, a.case.expect, a.actual)
            for a in answers
        ]
        session.output.table(("", "actor", "action", "on", "expected", "answer"), rows)
    if wrong:
        raise Refused(
            f"{len(wrong)} of {len(answers)} cases have another answer than expected.",
            next="Correct the policy, or the cases. `quire policy explain` says which rules decide.",
        )


@command("policy explain", branch=False)
def explain(
    session: Session,
    actor: Annotated[str, typer.Argument(metavar="ACTOR", help="Who.")],
    action: Annotated[str, typer.Argument(metavar="ACTION", help="What: read, write, mergeInto, ….")],
    on: Annotated[str, typer.Argument(metavar="ON", help="""On what: 'Table::"people"', 'Branch::"main"', Lake.""")],
    role: Annotated[list[str] | None, typer.Option("--role", metavar="ROLE", help="A role of the actor.")] = None,
) -> None:
    """Say whether an actor may do something, and which rules decide it."""
    found = session.read().policy.explain(actor, action, on, roles=role or [])
    if session.output.as_json:
        session.output.document(found.to_dict())
        return
    told = [("allowed", "yes" if found.allowed else "no"), ("rules", ", ".join(found.rules) or "none allows it")]
    told += [("mask", found.mask)] if found.mask else []
    told += [("rows", found.rows)] if found.rows else []
    told += [(f"column {name}", how) for name, how in found.columns.items()]
    session.output.fields(told)


@command("audit")
def audit(
    session: Session,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Entries at most.")] = 50,
    actor: Annotated[str | None, typer.Option("--actor", metavar="ACTOR", help="Only those of this actor.")] = None,
    denied: Annotated[bool, typer.Option("--denied", help="Only what was refused.")] = False,
) -> None:
    """Show what was written and what was refused, newest first.

    Each with who it was, when, and by which request. Commits are those of main, or --branch.
    """
    found = session.read().audit(limit=limit, actor=actor, denied=denied)
    if session.output.as_json:
        session.output.document({"entries": [entry.to_dict() for entry in found]})
        return
    rows = [
        (f"{e.time:%Y-%m-%d %H:%M:%S}", e.what, e.actor, e.action, f"{e.kind} {e.name}".strip(), e.branch, e.request)
        for e in found
    ]
    session.output.table(("time (UTC)", "", "actor", "action", "on", "branch", "request"), rows)
