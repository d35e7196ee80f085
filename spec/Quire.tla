-------------------------------- MODULE Quire --------------------------------
(* The publish protocol of Quire beside cleanup: slots, rebase, epoch, floor, tombstones, notes, leases, backfill.   *)
(*                                                                                                                   *)
(* One branch, one table, one transaction per writer. Each commit adds its row to what it was built on and pins the  *)
(* one file that it staged, so a pin of an old state is garbage once that state is gone. Anybody may stop between    *)
(* any two steps, for ever or until later: a stalled writer needs no step of its own. A PUT that was sent may land   *)
(* at any later moment. Whom the collector takes for dead is a free choice, which is more than any clock allows; how *)
(* far back it keeps and how long its grace is are set by each configuration.                                        *)
(*                                                                                                                   *)
(* docs/design/004-model.md tells what is left out. Each rule is a constant; a configuration that sets one of them   *)
(* to FALSE must fail.                                                                                               *)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS
  Writers,      \* publish one commit each
  Noted,        \* those of them that stay open long enough to write a note
  Lossy,        \* those of all whose answers may be lost
  Reverters,    \* publish the pin of an older commit again
  Claimers,     \* raise the epoch
  Collectors,   \* each runs cleanup once; two may run side by side
  Backfillers,  \* bring the plain HEAD forward, again and again
  Readers,      \* lease one snapshot each
  Graces,       \* the graces a collector may have, in units of store time
  Keeps,        \* how many slots before the head a collector may keep
  Tagged,       \* whether a tag protects slot 0 at the start
  Restores,     \* whether the store may be put back, once, to an older copy that lacks the newest slot
  None, Genesis \* nobody; the writer of slot 0

CONSTANTS          \* the rules
  Tombstone,       \* a slot is overwritten, never deleted
  FloorRecord,     \* a floor is published, and obeyed, before anything is deleted
  ReadBefore,      \* slot k is written only after k-1 was read
  Predecessor,     \* a record names the one before it, and readers check that
  ProtectorsAfter, \* notes, leases and tags are listed after the floor was published
  EpochCheck,      \* a writer that reads a claim with a higher epoch stops
  EpochAtBegin,    \* work is of the epoch in which it began, whoever goes on with it
  WriteId,         \* an unknown outcome is settled by the write id in the slot
  HeadsLast,       \* the head is read again after the notes were listed
  PromoteIfSame,   \* the plain HEAD moves only if it is still what was seen
  HeadFirst,       \* the plain HEAD is brought up to the floor before anything is deleted
  DeadByRecord,    \* only a floor record makes a writer dead, not the age of its note
  NoteKept,        \* a note stays while the outcome is unknown
  RemovedCounts,   \* a tag removed after the horizon counts as still there
  SourceFloor      \* a pin taken from an older commit expires with that commit

Agents == Writers \cup Reverters \cup Claimers
Last   == Cardinality(Agents) + Cardinality(Collectors)
Slots  == 0..Last
Files  == Writers \cup {Genesis}

VARIABLES
  log,      \* slot -> what is there
  files,    \* the data files that exist
  stamp,    \* file -> store time at which it was written
  now,      \* store time; it rises whenever a collector asks for it
  pc, at, seen, epoch, source, take, \* writers: step, newest slot read and its record, own epoch, pin and its slot
  born,     \* the epoch in which their work began
  since, note, noteHead, \* writer notes: store time of the beginning, is it there, the head read after it was
  acked,    \* whose caller was told "committed"
  head,     \* the plain HEAD: how many commits it holds, and its file
  promoted, \* every pin in the order of its publication
  col,      \* collectors
  back,     \* backfillers
  reader, tag, \* the leases, the tag
  restored, \* whether the store was put back
  declared  \* the highest floor that a collector has acted on, published or not

store   == <<log, files, stamp, now>>
writing == <<pc, at, seen, epoch, born, source, take, acked>>
notes   == <<since, note, noteHead>>
plain   == <<head, promoted>>
rest    == <<back, reader, tag, restored, declared>>
vars    == <<store, writing, notes, plain, col, rest>>

------------------------------------------------------------------------------
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : x <= y

Absent == [kind |-> "absent", id |-> None, prev |-> None, epoch |-> 0, born |-> 0, pin |-> None, rows |-> {},
           floor |-> 0, horizon |-> 0, revoked |-> {}]
First  == [Absent EXCEPT !.kind = "commit", !.id = Genesis, !.pin = Genesis, !.rows = {Genesis}]
Buried(r) == [Absent EXCEPT !.kind = "tombstone", !.id = r.id, !.prev = r.prev]

Taken(s)  == log[s].kind # "absent"
Whole(s)  == log[s].kind \notin {"absent", "tombstone"}
Newest    == CHOOSE s \in Slots : Taken(s) /\ \A t \in s + 1 .. Last : ~Taken(t)
Floor     == Max({0} \cup {log[s].floor : s \in Slots})
Kept(s)   == s >= (IF FloorRecord THEN Floor ELSE declared)
Count(r)  == [count |-> Cardinality(r.rows), file |-> r.pin]

Idle    == [step |-> 1, horizon |-> 0, floor |-> 0, revoked |-> {}, safe |-> {}, need |-> {}]
Resting == [step |-> "rest", target |-> [count |-> 0, file |-> None], saw |-> [count |-> 0, file |-> None]]

Init ==
  /\ log = [s \in Slots |-> IF s = 0 THEN First ELSE Absent]
  /\ files = {Genesis}
  /\ stamp = [f \in Files |-> 0]
  /\ now = 1
  /\ pc = [w \in Agents |-> "idle"]
  /\ at = [w \in Agents |-> 0]
  /\ seen = [w \in Agents |-> Absent]
  /\ epoch = [w \in Agents |-> 0]
  /\ born = [w \in Agents |-> 0]
  /\ source = [w \in Agents |-> 0]
  /\ take = [w \in Agents |-> None]
  /\ acked = {}
  /\ since = [w \in Noted |-> 0]
  /\ note = [w \in Noted |-> "none"]
  /\ noteHead = [w \in Noted |-> Last]
  /\ head = [count |-> 1, file |-> Genesis]
  /\ promoted = <<Genesis>>
  /\ col = [c \in Collectors |-> Idle]
  /\ back = [b \in Backfillers |-> Resting]
  /\ reader = [r \in Readers |-> [step |-> "rest", slot |-> 0, tagged |-> FALSE]]
  /\ tag = [there |-> Tagged, removed |-> 0]
  /\ restored = FALSE
  /\ declared = 0

------------------------------------------------------------------------------
(* A writer stages one file; who restores an older pin stages none. *)
Write(w) ==
  /\ files' = IF w \in Writers THEN files \cup {w} ELSE files
  /\ stamp' = IF w \in Writers THEN [stamp EXCEPT ![w] = now] ELSE stamp

(* Writers *)

(* One snapshot is captured. A writer without a note stages at once; one with a note takes its time. *)
Begin(w) ==
  /\ pc[w] = "idle"
  /\ at' = [at EXCEPT ![w] = Newest]
  /\ seen' = [seen EXCEPT ![w] = log[Newest]]
  /\ epoch' = [epoch EXCEPT ![w] = log[Newest].epoch]
  /\ born' = [born EXCEPT ![w] = log[Newest].epoch]
  /\ IF w \in Reverters
     THEN \E s \in {s \in Floor..Newest : Whole(s)} :
            source' = [source EXCEPT ![w] = s] /\ take' = [take EXCEPT ![w] = log[s].pin]
     ELSE source' = source /\ take' = [take EXCEPT ![w] = w]
  /\ IF w \in Noted
     THEN since' = [since EXCEPT ![w] = now] /\ pc' = [pc EXCEPT ![w] = "open"] /\ UNCHANGED <<files, stamp>>
     ELSE since' = since /\ pc' = [pc EXCEPT ![w] = "ready"] /\ Write(w)
  /\ UNCHANGED <<log, now, note, noteHead, acked, plain, col, rest>>

Stage(w) ==
  /\ pc[w] = "open"
  /\ pc' = [pc EXCEPT ![w] = "ready"]
  /\ Write(w)
  /\ UNCHANGED <<log, now, at, seen, epoch, born, source, take, acked, notes, plain, col, rest>>

(* The note is written, and only then the head is read: protectors write themselves down, then look for the floor. *)
WriteNote(w) ==
  /\ w \in Noted /\ pc[w] \in {"open", "ready"} /\ note[w] = "none"
  /\ note' = [note EXCEPT ![w] = "there"]
  /\ UNCHANGED <<store, writing, since, noteHead, plain, col, rest>>

ReadHead(w) ==
  /\ w \in Noted /\ pc[w] \in {"open", "ready"} /\ note[w] = "there" /\ noteHead[w] = Last /\ Newest < Last
  /\ noteHead' = [noteHead EXCEPT ![w] = Newest]
  /\ UNCHANGED <<store, writing, since, note, plain, col, rest>>

(* Without NoteKept a writer that has sent its PUT and heard nothing gives up, and its note with it. *)
DropNote(w) ==
  /\ w \in Noted /\ note[w] = "there"
  /\ pc[w] \in {"done", "failed"} \cup (IF NoteKept THEN {} ELSE {"ready"})
  /\ note' = [note EXCEPT ![w] = "gone"]
  /\ noteHead' = [noteHead EXCEPT ![w] = Last]
  /\ UNCHANGED <<store, writing, since, plain, col, rest>>

Covered(w, s) == w \in Noted /\ note[w] = "there" /\ noteHead[w] < s

Refuses(w, s) ==
  LET r == log[s] IN
  \/ r.kind = "tombstone"
  \/ Predecessor /\ r.prev # (IF s = at[w] + 1 THEN seen[w].id ELSE log[s - 1].id)
  \/ EpochCheck /\ r.epoch > epoch[w]
  \/ /\ r.kind = "floor"
     /\ \/ w \in r.revoked
        \/ SourceFloor /\ w \in Reverters /\ r.floor > source[w]
        \/ w \in Writers /\ pc[w] = "ready" /\ stamp[w] < r.horizon /\ ~Covered(w, s)

End(w, how) ==
  /\ pc' = [pc EXCEPT ![w] = how]
  /\ at' = [at EXCEPT ![w] = 0]
  /\ seen' = [seen EXCEPT ![w] = Absent]
  /\ epoch' = [epoch EXCEPT ![w] = 0]
  /\ born' = [born EXCEPT ![w] = 0]
  /\ source' = [source EXCEPT ![w] = 0]
  /\ take' = [take EXCEPT ![w] = None]

(* Read what there is and move over it: compare with each record, rebase, or stop for good. *)
ReadOn(w) ==
  /\ pc[w] \in {"open", "ready"} /\ at[w] < Newest
  /\ IF \E s \in at[w] + 1 .. Newest : Refuses(w, s)
     THEN End(w, "failed")
     ELSE /\ at' = [at EXCEPT ![w] = Newest]
          /\ seen' = [seen EXCEPT ![w] = log[Newest]]
          /\ UNCHANGED <<pc, epoch, born, source, take>>
  /\ UNCHANGED <<store, acked, notes, plain, col, rest>>

(* Staged work is handed to a handle that is opened now. With the rule nothing changes by it: the handle's own epoch  *)
(* says nothing of when the work began.                                                                              *)
HandOver(w) ==
  /\ ~EpochAtBegin /\ pc[w] = "ready" /\ Whole(Newest)
  /\ epoch' = [epoch EXCEPT ![w] = log[Newest].epoch]
  /\ UNCHANGED <<store, pc, at, seen, born, source, take, acked, notes, plain, col, rest>>

Record(w) ==
  [Absent EXCEPT !.kind = "commit", !.id = w, !.prev = seen[w].id, !.epoch = epoch[w], !.born = born[w],
                 !.pin = take[w], !.rows = seen[w].rows \cup {w}]

(* The store acts on the PUT: create the slot if it is absent. Between sending and this moment anything may happen;   *)
(* a writer that loses has changed nothing and reads on. The answer may be lost.                                     *)
Put(w) ==
  /\ pc[w] = "ready"
  /\ \E s \in {at[w] + 1} \cup (IF ReadBefore THEN {} ELSE {Newest + 1}) :
       s \in Slots /\ ~Taken(s) /\ log' = [log EXCEPT ![s] = Record(w)]
  /\ promoted' = Append(promoted, take[w])
  /\ \/ End(w, "done") /\ acked' = acked \cup {w}
     \/ w \in Lossy /\ pc' = [pc EXCEPT ![w] = "unknown"] /\ UNCHANGED <<at, seen, epoch, born, source, take, acked>>
  /\ UNCHANGED <<files, stamp, now, notes, head, col, rest>>

(* The slot is read. My id: committed. Without an id in it, somebody's record looks like a conflict. *)
Settle(w) ==
  /\ pc[w] = "unknown"
  /\ IF WriteId
     THEN End(w, "done") /\ acked' = acked \cup {w}
     ELSE pc' = [pc EXCEPT ![w] = "ready"] /\ UNCHANGED <<at, seen, epoch, born, source, take, acked>>
  /\ UNCHANGED <<store, notes, plain, col, rest>>

(* A claim is compared with nothing, so reading on and taking the next slot is one step. *)
Claim(k) ==
  /\ pc[k] = "idle" /\ Newest < Last
  /\ pc' = [pc EXCEPT ![k] = "done"]
  /\ log' = [log EXCEPT ![Newest + 1] = [Absent EXCEPT
       !.kind = "claim", !.id = k, !.prev = log[Newest].id, !.epoch = log[Newest].epoch + 1,
       !.pin = log[Newest].pin, !.rows = log[Newest].rows]]
  /\ acked' = acked \cup {k}
  /\ UNCHANGED <<files, stamp, now, at, seen, epoch, born, source, take, notes, plain, col, rest>>

------------------------------------------------------------------------------
(* The collector: the numbers are those of the protocol. *)

Listing == (IF Noted = {} THEN <<>> ELSE <<"notes">>) \o (IF Readers = {} THEN <<>> ELSE <<"leases", "tags">>)
Order ==
  CASE ~ProtectorsAfter -> <<"plan">> \o Listing \o <<"publish", "promote", "gather", "delete">>
    [] ~HeadsLast       -> <<"plan", "publish", "gather">> \o Listing \o <<"promote", "delete">>
    [] OTHER            -> <<"plan", "publish">> \o Listing \o <<"promote", "gather", "delete">>

Does(c, step) == col[c].step <= Len(Order) /\ Order[col[c].step] = step
Listed        == {w \in Noted : note[w] = "there"}

Plan(c) == \* 1 and 2: store time, the dead, the horizon, what is kept
  /\ Does(c, "plan")
  /\ now' = now + 1
  /\ \E dead \in SUBSET Listed, grace \in Graces, keep \in Keeps :
       /\ keep <= Newest
       /\ col' = [col EXCEPT ![c] = [Idle EXCEPT
            !.step = 2,
            !.horizon = Min({now + 1 - grace} \cup {since[w] : w \in Listed \ dead}),
            !.floor = Newest - keep,
            !.revoked = dead]]
  /\ UNCHANGED <<log, files, stamp, writing, notes, plain, rest>>

Publish(c) == \* 3: an ordinary append, after everything that is in the log
  /\ Does(c, "publish")
  /\ LET floor == Max({Floor, col[c].floor}) IN
     /\ declared' = Max({declared, floor})
     /\ col' = [col EXCEPT ![c].step = @ + 1, ![c].floor = floor]
     /\ IF ~FloorRecord THEN log' = log
        ELSE /\ Newest < Last
             /\ log' = [log EXCEPT ![Newest + 1] = [log[Newest] EXCEPT
                  !.kind = "floor", !.id = c, !.prev = log[Newest].id, !.floor = floor,
                  !.horizon = col[c].horizon, !.revoked = col[c].revoked]]
  /\ UNCHANGED <<files, stamp, now, writing, notes, plain, back, reader, tag, restored>>

ListNotes(c) == \* 4: whoever wrote himself down before he could have seen the floor is here
  /\ Does(c, "notes")
  /\ \E dead \in SUBSET Listed :
       /\ dead = Listed \cap col[c].revoked \/ ~DeadByRecord
       /\ col' = [col EXCEPT ![c].step = @ + 1,
                             ![c].horizon = Min({@} \cup {since[w] : w \in Listed \ dead})]
  /\ UNCHANGED <<store, writing, notes, plain, rest>>

Leased    == {r \in Readers : reader[r].step \in {"leased", "held"}}
TagCounts(horizon) == tag.there \/ (Tagged /\ RemovedCounts /\ tag.removed >= horizon)

ListLeases(c) ==
  /\ Does(c, "leases")
  /\ col' = [col EXCEPT ![c].step = @ + 1,
                        ![c].safe = @ \cup {reader[r].slot : r \in Leased}]
  /\ UNCHANGED <<store, writing, notes, plain, rest>>

ListTags(c) ==
  /\ Does(c, "tags")
  /\ col' = [col EXCEPT ![c].step = @ + 1,
                        ![c].safe = @ \cup (IF TagCounts(col[c].horizon) THEN {0} ELSE {})]
  /\ UNCHANGED <<store, writing, notes, plain, rest>>

Promote(c) == \* the plain HEAD must not lie below the floor, or a backfill that slept could still move it there
  /\ Does(c, "promote")
  /\ head' = IF HeadFirst /\ Whole(Newest) /\ head.count < Count(log[Newest]).count THEN Count(log[Newest]) ELSE head
  /\ col' = [col EXCEPT ![c].step = @ + 1]
  /\ UNCHANGED <<store, writing, notes, promoted, rest>>

Gather(c) == \* 5: every kept state up to the head of now, and the plain HEAD
  /\ Does(c, "gather")
  /\ col' = [col EXCEPT ![c].step = @ + 1,
                        ![c].need = {head.file} \cup {log[s].pin : s \in {s \in col[c].floor..Newest : Whole(s)}}]
  /\ UNCHANGED <<store, writing, notes, plain, rest>>

Delete(c) == \* 6: records below the floor read the same before and after the files go, so both go in one step
  /\ Does(c, "delete")
  /\ files' = {f \in files : \/ f \in col[c].need \cup {log[s].pin : s \in col[c].safe}
                             \/ stamp[f] >= col[c].horizon}
  /\ log' = [s \in Slots |->
       IF s < col[c].floor /\ s \notin col[c].safe /\ Taken(s)
       THEN IF Tombstone THEN Buried(log[s]) ELSE Absent
       ELSE log[s]]
  /\ col' = [col EXCEPT ![c] = [Idle EXCEPT !.step = Len(Order) + 1]]
  /\ UNCHANGED <<stamp, now, writing, notes, plain, rest>>

------------------------------------------------------------------------------
(* Backfill: by anybody, to the newest state that was read, never back, on the condition that HEAD is what was seen. *)

Target(b) ==
  /\ back[b].step = "rest" /\ Whole(Newest) /\ Count(log[Newest]).count > 1
  /\ back' = [back EXCEPT ![b].step = "look", ![b].target = Count(log[Newest])]
  /\ UNCHANGED <<store, writing, notes, plain, col, reader, tag, restored, declared>>

Look(b) ==
  /\ back[b].step = "look"
  /\ back' = [back EXCEPT ![b] =
       IF head.count < back[b].target.count THEN [@ EXCEPT !.step = "move", !.saw = head] ELSE Resting]
  /\ UNCHANGED <<store, writing, notes, plain, col, reader, tag, restored, declared>>

Move(b) ==
  /\ back[b].step = "move"
  /\ head' = IF head = back[b].saw \/ ~PromoteIfSame THEN back[b].target ELSE head
  /\ back' = [back EXCEPT ![b] = Resting]
  /\ UNCHANGED <<store, writing, notes, promoted, col, reader, tag, restored, declared>>

------------------------------------------------------------------------------
(* A lease: written, then the floor is read. Below it the lease holds only if a tag protected the commit throughout. *)

Open(r) ==
  /\ reader[r].step = "rest"
  /\ \/ \E s \in {s \in Floor..Newest : Whole(s)} :
          reader' = [reader EXCEPT ![r] = [step |-> "open", slot |-> s, tagged |-> FALSE]]
     \/ tag.there /\ reader' = [reader EXCEPT ![r] = [step |-> "open", slot |-> 0, tagged |-> TRUE]]
  /\ UNCHANGED <<store, writing, notes, plain, col, back, tag, restored, declared>>

Lease(r) ==
  /\ reader[r].step = "open"
  /\ reader' = [reader EXCEPT ![r].step = "leased"]
  /\ UNCHANGED <<store, writing, notes, plain, col, back, tag, restored, declared>>

Hold(r) ==
  /\ reader[r].step = "leased"
  /\ reader' = [reader EXCEPT ![r].step =
       IF reader[r].slot >= Floor \/ (reader[r].tagged /\ tag.there) THEN "held" ELSE "expired"]
  /\ UNCHANGED <<store, writing, notes, plain, col, back, tag, restored, declared>>

Untag ==
  /\ tag.there
  /\ tag' = [there |-> FALSE, removed |-> now]
  /\ UNCHANGED <<store, writing, notes, plain, col, back, reader, restored, declared>>

(* The store itself is put back to an older copy. Commits are lost then; readers must not take two histories for one. *)
PutBack ==
  /\ Restores /\ ~restored /\ Newest > 0
  /\ restored' = TRUE
  /\ log' = [log EXCEPT ![Newest] = Absent]
  /\ UNCHANGED <<files, stamp, now, writing, notes, plain, col, back, reader, tag, declared>>

------------------------------------------------------------------------------
Next ==
  \/ \E w \in Writers \cup Reverters :
       \/ Begin(w) \/ Stage(w) \/ WriteNote(w) \/ ReadHead(w) \/ DropNote(w)
       \/ ReadOn(w) \/ HandOver(w) \/ Put(w) \/ Settle(w)
  \/ \E k \in Claimers : Claim(k)
  \/ \E c \in Collectors :
       Plan(c) \/ Publish(c) \/ ListNotes(c) \/ ListLeases(c) \/ ListTags(c) \/ Promote(c) \/ Gather(c) \/ Delete(c)
  \/ \E b \in Backfillers : Target(b) \/ Look(b) \/ Move(b)
  \/ \E r \in Readers : Open(r) \/ Lease(r) \/ Hold(r)
  \/ Untag
  \/ PutBack

Spec == Init /\ [][Next]_vars

------------------------------------------------------------------------------
(* What must hold *)

NoDanglingPin == \* I1
  /\ \A s \in Slots : Kept(s) => log[s].kind # "tombstone" /\ (Taken(s) => log[s].pin \in files)
  /\ \A r \in Readers : reader[r].step = "held" => Whole(reader[r].slot) /\ log[reader[r].slot].pin \in files
  /\ tag.there => Whole(0) /\ log[0].pin \in files
  /\ head.file \in files

Places(w) == {s \in Slots : log[s].id = w}

NoLostCommit == \* I2
  /\ \A w \in Agents : Cardinality(Places(w)) <= 1
  /\ \A w \in acked : Cardinality(Places(w)) = 1

Chain == \* I3
  \A s \in Slots : s > 0 /\ Taken(s) => Taken(s - 1) /\ log[s].prev = log[s - 1].id

(* The slots a reader accepts: up to the first that does not follow the one before it. *)
Accepted == {s \in Slots : \A k \in 1..s : Taken(k) /\ (Predecessor => log[k].prev = log[k - 1].id)}

NoLostUpdate == \* I4: what is built on a state holds all of it, and what was acknowledged is in the head
  /\ \A s \in Accepted : s > 0 /\ Whole(s) /\ Whole(s - 1) =>
       log[s].rows = log[s - 1].rows \cup (IF log[s].kind = "commit" THEN {log[s].id} ELSE {})
  /\ ~restored /\ Whole(Newest) => acked \ Claimers \subseteq log[Newest].rows

EpochsRise == \* I5
  \A s, t \in Slots : s < t /\ Whole(s) /\ Whole(t) => log[s].epoch <= log[t].epoch

ClaimsEndWork == \* what began before a claim is not committed after it
  \A s, t \in Slots : s < t /\ log[s].kind = "claim" /\ log[t].kind = "commit" => log[t].born >= log[s].epoch

HeadPublished == head.count <= Len(promoted) /\ promoted[head.count] = head.file \* I6
HeadRises     == [][head'.count >= head.count]_vars

SlotsStay == [][\A s \in Slots : Taken(s) => Taken(s)']_vars \* I7

------------------------------------------------------------------------------
(* Not vacuous: each of these must be violated. *)

Deleted == \E f \in Files : stamp[f] < now /\ f \notin files /\ (f = Genesis \/ pc[f] \notin {"idle", "open"})

NeverCommitAfterCleanup == ~\E w \in acked, c \in Collectors, s, t \in Slots :
  s < t /\ log[s].id = c /\ log[t].id = w /\ Deleted
NeverCovered == ~\E w \in Writers, s, t \in Slots :
  s < t /\ log[s].kind = "floor" /\ log[t].id = w /\ stamp[w] < log[s].horizon
NeverRevoked == ~\E w \in Writers, c \in Collectors : pc[w] = "failed" /\ col[c].step > Len(Order) /\ w \notin files
NeverBackfilled == head.count < 3
NeverLeasedBelowFloor == ~\E r \in Readers, c \in Collectors :
  reader[r].step = "held" /\ reader[r].slot < Floor /\ ~tag.there /\ col[c].step > Len(Order)
NeverBuried == ~\E w \in acked, s \in Slots : log[s].kind = "tombstone" /\ log[s].id = w

Symmetry == Permutations(Writers \ Noted) \cup Permutations(Collectors)
==============================================================================
