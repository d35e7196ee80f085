-------------------------------- MODULE Offers --------------------------------
(* What offers add to the publish protocol: a writer that lost a race writes down what it wants to publish, and        *)
(* whoever publishes the next slot may take it along.                                                                *)
(*                                                                                                                   *)
(* `Quire` holds the rules of slots: k is written only after k-1 was read, a slot is never free again, an epoch and a *)
(* floor are obeyed. They are taken for granted here. One branch, two tables, one transaction per writer. Anybody may *)
(* stop between any two steps, for ever or until later; a PUT that was sent may land at any later moment.            *)
(*                                                                                                                   *)
(* A taker sees any of the offers that were ever sent: its list may lack some, name some twice, and name some that    *)
(* were deleted or overtaken long ago. So no step of the model deletes an offer: that is never a matter of safety.   *)
(*                                                                                                                   *)
(* docs/design/004-model.md tells what is left out. Each rule is a constant; a configuration that sets one of them   *)
(* to FALSE must fail.                                                                                               *)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS
  Adders,       \* add rows to table "t", whatever rows others add to it
  Changers,     \* change table "t" itself, as it was when they began
  Checkers,     \* add rows to table "u", and rest on what they read in "t"
  SameKey,      \* those of the adders that add a row with one and the same key
  Offering,     \* those of them that may offer, and give up
  Takers,       \* those that take offers of others along
  Noted,        \* those that stay open long enough to write a note
  Lossy,        \* those whose answers may be lost
  Collectors,   \* each runs cleanup once; it keeps nothing but the head
  Claims,       \* how often somebody raises the epoch
  Limit,        \* how many offers a writer sends
  Reach         \* into how many slots after its base an offer may be taken

CONSTANTS          \* the rules
  OnceARecord,     \* a taker puts a write id into its record at most once, its own among them
  NotInLog,        \* a taker looks for the write id in the records after the offer's base
  ReadSinceBase,   \* a taker has read all of those records itself
  Stands,          \* nothing that the offer needs was changed in those records
  EarlierMembers,  \* nor by those that come before it in the same record
  Fused,           \* rows that both add are put together by the taker
  UntilKept,       \* an offer is not taken into a slot after its last one
  NoFloorBetween,  \* nor when there is a floor record after its base
  SameEpoch,       \* nor when there is a claim after its base
  Looks,           \* the owner looks for its own write id in what it reads
  LooksFirst,      \* and does so before it judges what it read
  SentCounts,      \* an offer counts from the moment it is sent, whatever the answer
  UnknownWhileOut, \* who gives up while an offer may still be taken does not know how it ended
  SettledByAll,    \* an unknown outcome is settled by all slots into which the commit may come
  NoteStays,       \* the note stays as long as the outcome is unknown
  IdsStay          \* a tombstone keeps the write ids of all commits of its slot

Writers == Adders \cup Changers \cup Checkers
Last    == Cardinality(Writers) + Cardinality(Collectors) + Claims
Slots   == 0..Last

VARIABLES
  log,      \* slot -> what is there
  files,    \* the staged files that exist: each writer has one, of its name
  pc,       \* writers: the step
  from, at, \* the slot on which their work began, the newest slot they have read
  knows,    \* the slot after which their handle, which may be older than the work, has read every record
  offers,   \* the offers that were sent: whose, and the slot they were staged on
  last,     \* the last slot into which the owner thinks that its commit may come
  note, noteHead, \* writer notes: is it there, the head read after it was
  col       \* collectors

work  == <<pc, knows, from, at, last>>
notes == <<note, noteHead>>
vars  == <<log, files, work, offers, notes, col>>

------------------------------------------------------------------------------
Max(S) == CHOOSE x \in S : \A y \in S : y <= x

Absent   == [kind |-> "absent", ids |-> <<>>, rows |-> {}, epoch |-> 0, floor |-> 0, old |-> {}, revoked |-> {}]
Taken(s) == log[s].kind # "absent"
Newest   == CHOOSE s \in Slots : Taken(s) /\ \A t \in s + 1 .. Last : ~Taken(t)
Ids(s)   == {log[s].ids[i] : i \in 1..Len(log[s].ids)}

Table(w) == IF w \in Checkers THEN "u" ELSE "t"
(* Whether w cannot follow x: x changed the table that w adds to, or added its key, or anything that w has read. *)
Breaks(x, w) == \/ x # w /\ {x, w} \subseteq SameKey
                \/ Table(x) = Table(w) /\ Changers \cap {x, w} # {}
                \/ Table(x) = "t" /\ w \in Checkers

Resting == [step |-> "plan", old |-> {}, floor |-> 0, revoked |-> {}, need |-> {}]

Init ==
  /\ log = [s \in Slots |-> IF s = 0 THEN [Absent EXCEPT !.kind = "commit"] ELSE Absent]
  /\ files = {}
  /\ pc = [w \in Writers |-> "idle"]
  /\ knows = [w \in Writers |-> 0]
  /\ from = [w \in Writers |-> 0]
  /\ at = [w \in Writers |-> 0]
  /\ offers = {}
  /\ last = [w \in Writers |-> 0]
  /\ note = [w \in Noted |-> "none"]
  /\ noteHead = [w \in Noted |-> Last]
  /\ col = [c \in Collectors |-> Resting]

------------------------------------------------------------------------------
(* Writers. From "ready" on, a PUT of the next slot may be on its way. *)

Begin(w) ==
  /\ pc[w] = "idle"
  /\ pc' = [pc EXCEPT ![w] = "ready"]
  /\ \E s \in {Newest} \cup (IF w \in Takers THEN {0} ELSE {}) : knows' = [knows EXCEPT ![w] = s]
  /\ from' = [from EXCEPT ![w] = Newest]
  /\ at' = [at EXCEPT ![w] = Newest]
  /\ files' = files \cup {w}
  /\ UNCHANGED <<log, offers, last, notes, col>>

WriteNote(w) ==
  /\ w \in Noted /\ pc[w] = "ready" /\ note[w] = "none"
  /\ note' = [note EXCEPT ![w] = "there"]
  /\ UNCHANGED <<log, files, work, offers, noteHead, col>>

ReadHead(w) ==
  /\ w \in Noted /\ pc[w] = "ready" /\ note[w] = "there" /\ noteHead[w] = Last /\ Newest < Last
  /\ noteHead' = [noteHead EXCEPT ![w] = Newest]
  /\ UNCHANGED <<log, files, work, offers, note, col>>

DropNote(w) ==
  /\ w \in Noted /\ note[w] = "there"
  /\ pc[w] \in {"done", "failed"} \cup (IF NoteStays THEN {} ELSE {"unknown"})
  /\ note' = [note EXCEPT ![w] = "gone"]
  /\ noteHead' = [noteHead EXCEPT ![w] = Last]
  /\ UNCHANGED <<log, files, work, offers, col>>

(* The answer to the offer's PUT may be lost, and the PUT may land much later: takers see it at any time from now on. *)
Offer(w) ==
  /\ w \in Offering /\ pc[w] = "ready"
  /\ Cardinality({o \in offers : o.of = w}) < Limit
  /\ offers' = offers \cup {[of |-> w, base |-> at[w]]}
  /\ offers' # offers
  /\ \/ last' = [last EXCEPT ![w] = Max({@, at[w] + Reach})]
     \/ ~SentCounts /\ last' = last
  /\ UNCHANGED <<log, files, pc, knows, from, at, notes, col>>

End(w, how) ==
  /\ pc' = [pc EXCEPT ![w] = how]
  /\ at' = [at EXCEPT ![w] = 0]
  /\ last' = [last EXCEPT ![w] = 0]

Unread(w) == at[w] + 1 .. Newest
Found(w)  == \E s \in Unread(w) : w \in Ids(s)

Refuses(w, s) ==
  \/ log[s].kind = "tombstone"
  \/ log[s].epoch > log[from[w]].epoch
  \/ log[s].kind = "floor" /\ (w \in log[s].revoked \/ (w \in log[s].old /\ ~(w \in Noted /\ noteHead[w] < s)))
  \/ \E x \in Ids(s) : Breaks(x, w)

(* Read what there is: committed by another, or stopped for good, or moved onto it. *)
ReadOn(w) ==
  /\ pc[w] = "ready" /\ Unread(w) # {}
  /\ LET found   == Looks /\ Found(w)
         refused == \E s \in Unread(w) : Refuses(w, s)
     IN IF found /\ (LooksFirst \/ ~refused) THEN End(w, "done")
        ELSE IF refused THEN End(w, "failed")
        ELSE at' = [at EXCEPT ![w] = Newest] /\ UNCHANGED <<pc, last>>
  /\ UNCHANGED <<log, files, knows, from, offers, notes, col>>

(* Which offers w may take along into the slot after the newest that it has read, behind the members before them. *)
Between(w, o)         == o.base + 1 .. at[w]
MayTake(w, o, before) ==
  /\ o.base <= at[w]
  /\ UntilKept => at[w] + 1 <= o.base + Reach
  /\ ReadSinceBase => o.base >= knows[w]
  /\ NotInLog => \A s \in Between(w, o) : s > knows[w] => o.of \notin Ids(s)
  /\ OnceARecord => o.of \notin before
  /\ NoFloorBetween => \A s \in Between(w, o) : log[s].kind \notin {"floor", "tombstone"}
  /\ SameEpoch => log[at[w]].epoch = log[o.base].epoch
  /\ Stands => \A s \in Between(w, o) : \A x \in Ids(s) : ~Breaks(x, o.of)
  /\ EarlierMembers => \A x \in before : ~Breaks(x, o.of)

(* What w may take, in order: at most two. *)
Lists(w) ==
  LET one == {o \in offers : MayTake(w, o, {w})}
      two == {q \in one \X one : MayTake(w, q[2], {w, q[1].of})}
  IN {<<>>} \cup (IF w \in Takers THEN {<<o>> : o \in one} \cup two ELSE {})

(* The state after o. Its own manifest holds what its table held at its base; one that the taker makes holds all. *)
With(rows, o) ==
  {o.of} \cup
  IF Fused THEN rows
  ELSE {x \in rows : Table(x) # Table(o.of)} \cup {x \in log[o.base].rows : Table(x) = Table(o.of)}

Record(w, list) ==
  LET own   == log[at[w]].rows \cup {w}
      first == IF Len(list) > 0 THEN With(own, list[1]) ELSE own
  IN [log[at[w]] EXCEPT
        !.kind = "commit",
        !.ids = <<w>> \o [i \in 1..Len(list) |-> list[i].of],
        !.rows = IF Len(list) > 1 THEN With(first, list[2]) ELSE first,
        !.old = {}, !.revoked = {}]

(* The store acts on the PUT: create the slot if it is absent. The answer may be lost, or its writer have given up. *)
Put(w) ==
  /\ pc[w] \in {"ready", "late"} /\ at[w] = Newest /\ Newest < Last
  /\ \E list \in Lists(w) : log' = [log EXCEPT ![Newest + 1] = Record(w, list)]
  /\ \/ pc[w] = "ready" /\ End(w, "done")
     \/ (w \in Lossy \/ pc[w] = "late") /\ pc' = [pc EXCEPT ![w] = "unknown"] /\ UNCHANGED at
        /\ last' = [last EXCEPT ![w] = Max({@, at[w] + 1})]
  /\ UNCHANGED <<files, knows, from, offers, notes, col>>

(* A deadline, Ctrl-C, an error: with a PUT on its way, or without one. *)
GiveUp(w) ==
  /\ pc[w] = "ready" /\ w \in Offering
  /\ \/ w \in Lossy /\ pc' = [pc EXCEPT ![w] = "late"] /\ last' = [last EXCEPT ![w] = Max({@, at[w] + 1})] /\ at' = at
     \/ IF UnknownWhileOut /\ last[w] > at[w]
        THEN pc' = [pc EXCEPT ![w] = "unknown"] /\ UNCHANGED <<at, last>>
        ELSE End(w, "failed")
  /\ UNCHANGED <<log, files, knows, from, offers, notes, col>>

(* Read the slots. My id: committed. All of them taken, and not by me: not committed. *)
Settle(w) ==
  /\ pc[w] \in {"unknown", "late"}
  /\ IF Found(w) THEN End(w, "done")
     ELSE Newest >= (IF SettledByAll THEN last[w] ELSE at[w] + 1) /\ End(w, "failed")
  /\ UNCHANGED <<log, files, knows, from, offers, notes, col>>

------------------------------------------------------------------------------
(* A claim is compared with nothing, so reading on and taking the next slot is one step. *)

Claim ==
  /\ Newest < Last /\ log[Newest].epoch < Claims
  /\ log' = [log EXCEPT ![Newest + 1] =
       [log[Newest] EXCEPT !.kind = "claim", !.ids = <<>>, !.epoch = @ + 1, !.old = {}, !.revoked = {}]]
  /\ UNCHANGED <<files, work, offers, notes, col>>

------------------------------------------------------------------------------
(* The collector. A file may go when it lay there before the plan and no note that is alive covers it. *)

Does(c, step, next) == col[c].step = step /\ col' = [col EXCEPT ![c].step = next]
Listed == {w \in Noted : note[w] = "there"}

Plan(c) ==
  /\ col[c].step = "plan"
  /\ \E dead \in SUBSET Listed :
       col' = [col EXCEPT ![c] = [@ EXCEPT !.step = "publish", !.old = files \ (Listed \ dead), !.floor = Newest,
                                           !.revoked = dead]]
  /\ UNCHANGED <<log, files, work, offers, notes>>

Publish(c) ==
  /\ Does(c, "publish", "list") /\ Newest < Last
  /\ log' = [log EXCEPT ![Newest + 1] =
       [log[Newest] EXCEPT !.kind = "floor", !.ids = <<>>, !.floor = Max({@, col[c].floor}), !.old = col[c].old,
                           !.revoked = col[c].revoked]]
  /\ UNCHANGED <<files, work, offers, notes>>

List(c) ==
  /\ col[c].step = "list"
  /\ col' = [col EXCEPT ![c].step = "gather", ![c].old = @ \ (Listed \ col[c].revoked)]
  /\ UNCHANGED <<log, files, work, offers, notes>>

Gather(c) ==
  /\ col[c].step = "gather"
  /\ col' = [col EXCEPT ![c].step = "delete", ![c].need = log[Newest].rows]
  /\ UNCHANGED <<log, files, work, offers, notes>>

Buried(r) == [r EXCEPT !.kind = "tombstone", !.ids = IF IdsStay THEN @ ELSE <<>>]

Delete(c) ==
  /\ col[c].step = "delete"
  /\ files' = files \ (col[c].old \ col[c].need)
  /\ log' = [s \in Slots |-> IF Taken(s) /\ s < col[c].floor THEN Buried(log[s]) ELSE log[s]]
  /\ col' = [col EXCEPT ![c] = [Resting EXCEPT !.step = "end"]]
  /\ UNCHANGED <<work, offers, notes>>

------------------------------------------------------------------------------
Next ==
  \/ \E w \in Writers :
       \/ Begin(w) \/ WriteNote(w) \/ ReadHead(w) \/ DropNote(w)
       \/ Offer(w) \/ ReadOn(w) \/ Put(w) \/ GiveUp(w) \/ Settle(w)
  \/ Claim
  \/ \E c \in Collectors : Plan(c) \/ Publish(c) \/ List(c) \/ Gather(c) \/ Delete(c)

Spec == Init /\ [][Next]_vars

------------------------------------------------------------------------------
(* What must hold *)

Places(w) == {p \in Slots \X (1..3) : p[2] <= Len(log[p[1]].ids) /\ log[p[1]].ids[p[2]] = w}

OnceInLog   == \A w \in Writers : Cardinality(Places(w)) <= 1
NoLostWrite == \A s \in Slots : s > 0 /\ Taken(s) => log[s].rows = log[s - 1].rows \cup Ids(s)
Committed   == \A w \in Writers : pc[w] = "done" => w \in log[Newest].rows
CertainlyNot == \A w \in Writers : pc[w] = "failed" => w \notin log[Newest].rows

NoDanglingPin == log[Newest].rows \subseteq files

NoBypass == \* whatever was committed since a writer began, and before its place, does not touch what it needs
  \A s \in Slots : \A i \in 1..Len(log[s].ids) :
    LET w == log[s].ids[i] IN
      /\ \A t \in from[w] + 1 .. s - 1 : \A x \in Ids(t) : ~Breaks(x, w)
      /\ \A j \in 1 .. i - 1 : ~Breaks(log[s].ids[j], w)

Fences == \* after a claim no work that began before it, after a revocation nothing of who was revoked
  \A s \in Slots : \A w \in Ids(s) :
    /\ log[s].epoch = log[from[w]].epoch
    /\ \A t \in 1 .. s - 1 : w \notin log[t].revoked

------------------------------------------------------------------------------
(* Not vacuous: each of these must be violated. *)

TakenIn(w) == {p[1] : p \in {p \in Places(w) : p[2] > 1}}

NeverTwoTaken == \A s \in Slots : Len(log[s].ids) < 3
NeverNeeded   == \A w \in Checkers : TakenIn(w) = {}
NeverRenewed  == ~\E w \in Writers : \E s \in TakenIn(w) : s > from[w] + Reach
NeverUnknown  == ~\E w \in Writers : pc[w] \in {"late", "unknown"} /\ TakenIn(w) # {}
NeverRefused  == ~\E o \in offers : pc[o.of] = "failed"
NeverCovered  == ~\E w \in Writers : \E s \in TakenIn(w), t \in Slots : t > from[w] /\ t < s /\ w \in log[t].old
NeverBuried   == ~\E w \in Writers : pc[w] = "ready" /\ \E s \in TakenIn(w) : log[s].kind = "tombstone"

Symmetry == Permutations(Collectors)
================================================================================
