"""Merge requests: a branch that somebody wants to have merged, with what others say of it.

A request is written down in the lake, so everybody who reads the lake sees it, and it needs no server. Two who change
one at the same moment both succeed, one after the other; what cannot stand beside the other's change is refused.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from quire.arguments import bounded, checks_arguments
from quire.errors import Conflict, InvalidInput, QuireError, Refused, RequestClosed, RequestNotFound, shown
from quire.lake.branch.live import open_branch
from quire.lake.commit import record_time, record_values
from quire.lake.guard.handles import approved
from quire.lake.resolve import resolve as resolved
from quire.ledger import FORMAT, Point, StreamToken, new_id
from quire.ledger.requests import (
    LAST,
    Standing,
    StoredRequest,
    StoredRequests,
    StoredResolution,
    StoredReview,
    Verdict,
)
from quire.prompt import Escaped, PublicNames, one_line

if TYPE_CHECKING:
    from quire.lake.context import Core
    from quire.lake.lake import Lake
    from quire.lake.merge.plan import Mode
    from quire.lake.receipt import Receipt

_log = logging.getLogger("quire")
REQUEST = "Request"
"""What the audit calls a merge request."""
TITLE = 1_000
TEXT = 64 << 10
REVIEWS = 1_000
"""Reviews and comments of a request."""
RESOLUTIONS = 10_000
VALUES = 1 << 20
"""Bytes of the values of a row that resolves a conflict."""
TRIES = 32
VERDICTS = ("comment", "approve", "object")
CHOICES = ("ours", "theirs", "delete", "values")


@dataclass(frozen=True, repr=False)
class Review(Escaped):
    """What somebody said of a request: a comment, an approval or an objection."""

    author: str
    time: datetime
    verdict: Verdict
    text: str
    head: str
    """The commit of the source that was looked at."""

    def __repr__(self) -> str:
        return one_line(f"<Review: {self.verdict} of {self.head} by {self.author}: {self.text}>")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "author": self.author,
            "time": self.time.isoformat(),
            "verdict": self.verdict,
            "text": self.text,
            "head": self.head,
        }


@dataclass(frozen=True, repr=False)
class MergeRequest(Escaped):
    """A merge request as it stood when it was looked at."""

    number: int
    title: str
    text: str
    source: str
    target: str
    state: Standing
    author: str
    time: datetime
    changed: datetime
    reviews: tuple[Review, ...]
    resolutions: tuple[dict[str, Any], ...]
    """How conflicts are to be resolved: dicts with `table`, `key`, `fingerprint`, `resolution` and `merged`."""
    merged: str | None
    """The commit that merged it, on the target."""

    def __repr__(self) -> str:
        where = f"{self.source} into {self.target}"
        return one_line(f"<MergeRequest {self.number}, {self.state}: {where}: {self.title}>")

    @property
    def objections(self) -> tuple[Review, ...]:
        """Objections that their authors have not followed by an approval."""
        last = {review.author: review for review in self.reviews if review.verdict != "comment"}
        return tuple(review for review in last.values() if review.verdict == "object")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "number": self.number,
            "title": self.title,
            "text": self.text,
            "source": self.source,
            "target": self.target,
            "state": self.state,
            "author": self.author,
            "time": self.time.isoformat(),
            "changed": self.changed.isoformat(),
            "reviews": [review.to_dict() for review in self.reviews],
            "resolutions": list(self.resolutions),
            "merged": self.merged,
        }


@checks_arguments
class Requests(PublicNames):
    """The merge requests of a lake, as `lake.requests`.

    >>> import quire
    >>> lake = quire.create("memory://requests-example")
    >>> trial = lake.create_branch("trial")
    >>> made = lake.requests.open("trial", "Try it")
    >>> lake.requests.review(made.number, "approve", "fine").state
    'open'
    >>> [request.title for request in lake.requests.list()]
    ['Try it']
    """

    def __init__(self, lake: Lake) -> None:
        self._lake, self._core = lake, lake._core
        self._stored = StoredRequests(lake._core.store)

    def __repr__(self) -> str:
        return one_line(f"<Requests of {self._lake.uri}>")

    # -- reading ----------------------------------------------------------------------------------------------

    def list(self, state: Literal["open", "merged", "closed", "all"] = "open") -> list[MergeRequest]:
        """The requests in a state, the newest first."""
        self._core.check()
        if state not in ("open", "merged", "closed", "all"):
            raise InvalidInput(f"{shown(state)} is no state.", next='Use "open", "merged", "closed" or "all".')
        found = [r for r in reversed([*self._stored.every()]) if state in (r.state, "all") and self._sees(r)]
        return [self._told(r) for r in found]

    def get(self, number: int) -> MergeRequest:
        """One request by its number."""
        self._core.check()
        return self._told(self._newest(number)[0])

    def _newest(self, number: int) -> tuple[StoredRequest, int]:
        number = bounded("number", number, 1, LAST)
        found, generation = self._stored.get(number)
        if found is None or not self._sees(found):
            raise RequestNotFound(
                f"There is no merge request {number}.", next="`quire request list` shows them.", request=number
            )
        return found, generation

    # -- what an actor may see and change of it ---------------------------------------------------------------

    def _sees(self, request: StoredRequest) -> bool:
        """Whether whoever acts may see both branches."""
        core = self._core
        return core.guard is None or (core.sees_branch(request.source) and core.sees_branch(request.target))  # type: ignore[attr-defined]

    def _told(self, request: StoredRequest) -> MergeRequest:
        """A request; resolutions hold values of rows, so they are told to those who see these tables as a whole."""
        core = self._core
        if request.resolutions and core.guard is not None and core.guard.active():
            state = self._lake._live.state
            tables = [state.by_name(name) for name in {r.table for r in request.resolutions}]
            if not all(found is not None and core.sees_all(found) for found in tables):  # type: ignore[attr-defined]
                request = msgspec.structs.replace(request, resolutions=())
        return _told(request)

    def _check_mine(self, request: StoredRequest) -> None:
        """Refuse to change a request of somebody else, unless one may merge it."""
        core = self._core
        if core.guard is not None and request.author != core.author:
            core.on(request.target).allow("mergeInto", "Branch", request.target, source=request.source)  # type: ignore[attr-defined]

    # -- making and changing ----------------------------------------------------------------------------------

    def open(self, source: str, title: str, text: str = "", *, into: str | None = None) -> MergeRequest:
        """Ask for branch `source` to be merged into another one: by default into the branch of this handle."""
        core = self._core.check_writable()
        target = into if into is not None else self._lake.branch_name
        ours, theirs = open_branch(core, target), open_branch(core, source)
        if ours.line.branch == theirs.line.branch:
            raise InvalidInput(
                f"A branch cannot be merged into itself ({source!r}).", next="Name another target with into=."
            )
        now = record_time.now(core.store)
        fresh = StoredRequest(
            format=FORMAT,
            write=new_id(),
            number=0,
            title=_line("title", title),
            text=record_values.text("text", text, TEXT),
            source=source,
            source_log=theirs.line.branch,
            target=target,
            target_log=ours.line.branch,
            author=core.author,
            by=core.author,
            time=now,
            changed=now,
        )
        for number in itertools.count(self._stored.last() + 1):
            made = msgspec.structs.replace(fresh, number=bounded("number", number, 1, LAST))
            if self._stored.create(made, 0):
                core.did("open", REQUEST, str(number))
                return _told(made)
        raise AssertionError("unreachable")

    def comment(self, number: int, text: str) -> MergeRequest:
        """Say something of a request, whatever its state."""
        return self._say(number, "comment", text)

    def review(self, number: int, verdict: Literal["approve", "object", "comment"], text: str = "") -> MergeRequest:
        """Approve a request, or object to it: then it is merged only after you approved it, or by force."""
        if verdict not in VERDICTS:
            raise InvalidInput(f"{shown(verdict)} is no verdict.", next=f"Use one of {', '.join(VERDICTS)}.")
        return self._say(number, verdict, text)

    def _say(self, number: int, verdict: Verdict, text: str) -> MergeRequest:
        core = self._core.check_writable()
        said = record_values.text("text", text, TEXT)
        if verdict == "comment" and not said:
            raise InvalidInput("The comment is empty.", next="Say something.", field="text")

        def change(request: StoredRequest) -> StoredRequest:
            if verdict != "comment":
                self._check_open(request)
            if len(request.reviews) >= REVIEWS:
                raise Refused(
                    f"Merge request {number} has {REVIEWS} comments, which is all that it holds.",
                    next="Open another one.",
                    request=number,
                )
            head = _head(core, request)
            review = StoredReview(core.author, record_time.now(core.store), verdict, said, head)
            return msgspec.structs.replace(request, reviews=(*request.reviews, review))

        return self._change(number, verdict, change)

    def resolve(self, number: int, conflicts: Iterable[Any]) -> MergeRequest:
        """Keep how conflicts are to be resolved, for when the request is merged.

        They are what `MergePlan.resolve` takes: conflicts of a preview, or dicts, with a `resolution`. One for the same
        conflict takes the place of an earlier one. Those that do not fit any more by then are not applied.
        """
        author = self._core.check_writable().author
        given = {r.fingerprint: r for r in (_resolution(c, author) for c in conflicts)}

        def change(request: StoredRequest) -> StoredRequest:
            self._check_open(request)
            self._check_mine(request)
            kept = {**{r.fingerprint: r for r in request.resolutions}, **given}
            if len(kept) > RESOLUTIONS:
                raise InvalidInput(
                    f"A merge request holds {RESOLUTIONS:,} resolutions, and not {len(kept):,}.",
                    next="Merge it with resolve=, which takes a function.",
                    request=number,
                )
            return msgspec.structs.replace(request, resolutions=tuple(kept.values()))

        return self._change(number, "resolve", change)

    def close(self, number: int, text: str = "") -> MergeRequest:
        """Close a request without merging it. Closing one that is closed does nothing."""
        core = self._core.check_writable()
        said = record_values.text("text", text, TEXT)

        def change(request: StoredRequest) -> StoredRequest | None:
            if request.state == "closed":
                return None
            self._check_open(request)
            self._check_mine(request)
            reviews = request.reviews
            if said:
                reviews = (*reviews, StoredReview(core.author, record_time.now(core.store), "comment", said))
            return msgspec.structs.replace(request, state="closed", reviews=reviews)

        return self._change(number, "close", change)

    def reopen(self, number: int) -> MergeRequest:
        """Open a request again that was closed. One that is open stays so."""
        self._core.check_writable()

        def change(request: StoredRequest) -> StoredRequest | None:
            if request.state == "merged":
                self._check_open(request)
            self._check_mine(request)
            return None if request.state == "open" else msgspec.structs.replace(request, state="open")

        return self._change(number, "reopen", change)

    # -- merging ----------------------------------------------------------------------------------------------

    def merge(
        self,
        number: int,
        *,
        mode: Mode = "auto",
        resolve: Any = None,
        force: bool = False,
        message: str | None = None,
    ) -> Receipt:
        """Merge what a request asks for, with the resolutions that it keeps, and write down which commit did it.

        `mode` and `resolve` are as in `Lake.merge`. Merging a request that was merged gives the receipt of then. One
        with objections is refused, unless by `force`. However often it runs, and whoever was interrupted, a request is
        merged once: its commit carries a token. When only the note that it was merged fails, the log of `quire` says
        so, and merging it again writes it.
        """
        core = self._core.check_writable()
        request, _ = self._newest(number)
        target = self._lake.branch(request.target)
        token = StreamToken(f"request:{core.about.lake}:{request.number}", 0)
        done = _committed(target, token)
        if done is None:
            self._check_open(request)
            self._check_branches(request, target)
            objections = _told(request).objections
            if objections and not force:
                who = ", ".join(review.author for review in objections)
                raise Refused(
                    f"Merge request {number} has objections ({who}).",
                    next="Have them followed by an approval, or merge it by force.",
                    request=number,
                )
            about: dict[str, Any] = {"mode": mode, "resolve": resolve, "token": token}
            about["message"] = message or f"merge request {number}: {request.title}"
            target = approved(target, _approvals(request, _head(core, request)))
            plan = target.merge(request.source, preview=True, metadata={"request": str(number)}, **about)
            plan.resolve(_told(request).resolutions)
            done = plan.commit()
            if done.commit is None:
                done = _committed(target, token)  # another process may have merged it just now
        if done is None or done.commit is None:
            raise Refused(
                f"{request.target!r} has everything of {request.source!r}, so there is nothing to merge.",
                next="Close the request.",
                request=number,
            )
        self._write_down(number, target, done.commit)
        return done

    def _write_down(self, number: int, target: Lake, commit: str) -> None:
        """Write down which commit merged a request. That it is merged stands, whether this works or not."""
        try:
            at = resolved(self._core, target._live, commit).point
            self._change(number, "merge", partial(_merged, at=at))
        except QuireError as error:
            _log.warning(
                "Merge request %d is merged as %s, and that could not be written down (%s). Merge it again for that.",
                number,
                commit,
                error.message,
            )

    def _check_branches(self, request: StoredRequest, target: Lake) -> None:
        """Refuse when a name means another branch than it did."""
        source = open_branch(self._core, request.source)
        for name, now, then in (
            (request.source, source.line.branch, request.source_log),
            (request.target, target._live.line.branch, request.target_log),
        ):
            if now != then:
                raise RequestClosed(
                    f"Branch {name!r} was deleted and made anew since merge request {request.number} was opened.",
                    next="Close it, and open another one.",
                    request=request.number,
                    state=request.state,
                )

    # -- changing one, beside others --------------------------------------------------------------------------

    def _change(
        self, number: int, action: str, change: Callable[[StoredRequest], StoredRequest | None]
    ) -> MergeRequest:
        """Write the next generation; when somebody else did so first, the one after it."""
        for _ in range(TRIES):
            request, generation = self._newest(number)
            made = change(request)
            if made is None:
                return self._told(request)
            made = msgspec.structs.replace(
                made, write=new_id(), by=self._core.author, changed=record_time.now(self._core.store)
            )
            if self._stored.create(made, generation + 1):
                self._core.did(action, REQUEST, str(number))
                return self._told(made)
        raise Conflict(
            f"Others changed merge request {number} {TRIES} times in a row.",
            next="Try again.",
            retryable=True,
            request=number,
        )

    def _check_open(self, request: StoredRequest) -> None:
        if request.state == "open":
            return
        done = f"was merged as {request.merged.commit}" if request.merged is not None else "was closed"
        raise RequestClosed(
            f"Merge request {request.number} {done}.",
            next="Open another one." if request.merged is not None else "Open it again first: reopen().",
            request=request.number,
            state=request.state,
        )


def _approvals(request: StoredRequest, head: str) -> int:
    """How many others than its author have approved the source as it is now, and not objected since."""
    last = {r.author: r for r in request.reviews if r.verdict != "comment"}
    return sum(r.verdict == "approve" and r.head == head and r.author != request.author for r in last.values())


def _committed(target: Lake, token: StreamToken) -> Receipt | None:
    """The receipt of the commit with a token; None if there is none."""
    tx = target.transaction(token=token, fresh=True)
    try:
        return tx.repeated()
    finally:
        tx.discard()


def _merged(request: StoredRequest, at: Point) -> StoredRequest | None:
    """It was merged, even if somebody closed it in the meantime."""
    return None if request.state == "merged" else msgspec.structs.replace(request, state="merged", merged=at)


def _told(request: StoredRequest) -> MergeRequest:
    return MergeRequest(
        number=request.number,
        title=request.title,
        text=request.text,
        source=request.source,
        target=request.target,
        state=request.state,
        author=request.author,
        time=request.time,
        changed=request.changed or request.time,
        reviews=tuple(Review(r.author, r.time, r.verdict, r.text, r.head) for r in request.reviews),
        resolutions=tuple(
            {
                "table": r.table,
                "key": msgspec.json.decode(r.key),
                "fingerprint": r.fingerprint,
                "resolution": r.resolution,
                "merged": msgspec.json.decode(r.merged),
                "author": r.author,
            }
            for r in request.resolutions
        ),
        merged=request.merged.commit if request.merged is not None else None,
    )


def _head(core: Core, request: StoredRequest) -> str:
    """The newest commit of the source; none when it is not there any more."""
    ref, _ = core.refs.get("branch", request.source) if request.source_log != core.about.main else (None, -1)
    if request.source_log != core.about.main and (ref is None or ref.line is None):
        return ""
    live = open_branch(core, request.source)
    return live.state.head.commit if live.line.branch == request.source_log else ""


def _line(field: str, value: Any) -> str:
    said = record_values.text(field, value, TITLE).strip()
    if not said or "\n" in said:
        raise InvalidInput(f"The {field} must be one line of text.", next="Put more into text=.", field=field)
    return said


def _resolution(conflict: Any, author: str) -> StoredResolution:
    told = conflict.to_dict() if hasattr(conflict, "to_dict") else conflict
    wanted = {"table", "fingerprint", "resolution"}
    if not isinstance(told, Mapping) or not wanted <= told.keys() or told["resolution"] not in CHOICES:
        raise InvalidInput(
            f"{shown(conflict)} is not a conflict that was resolved.",
            next="Give dicts with table, key, fingerprint, resolution (ours, theirs, delete or values) and merged.",
        )
    return StoredResolution(
        table=record_values.text("table", told["table"], TITLE),
        fingerprint=record_values.text("fingerprint", told["fingerprint"], TITLE),
        resolution=cast("Any", told["resolution"]),
        author=author,
        key=_json("key", told.get("key")),
        merged=_json("merged", told.get("merged") if told["resolution"] == "values" else None),
    )


def _json(field: str, value: Any) -> str:
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError):
        raise InvalidInput(
            f"The {field} of a resolution cannot be stored: {shown(value)}.",
            next="Give values that JSON can hold.",
            field=field,
        ) from None
    return record_values.text(field, text, VALUES)
