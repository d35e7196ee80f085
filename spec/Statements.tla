------------------------------ MODULE Statements ------------------------------
(* What a transaction was told, and what its statements may be made to mean, when another one publishes first.       *)
(*                                                                                                                   *)
(* Quire.tla is about the slots, the files and the fences, and Offers.tla about who publishes. They are taken for    *)
(* granted here: publishing is one step, which compares with all that was committed since the base. Two tables with  *)
(* a name each, and two transactions. What a transaction does next is a free choice, so it may be any decision that  *)
(* its program makes by what it was told before.                                                                     *)
(*                                                                                                                   *)
(* A condition is a set of keys here; "delete" stands for updates by condition too. A row is known by its table, its *)
(* key and who wrote it.                                                                                             *)
(*                                                                                                                   *)
(* docs/design/004-model.md tells what is left out. Each rule is a constant; a configuration that sets one of them   *)
(* to FALSE must fail.                                                                                               *)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS
  Txs,          \* the transactions
  Serializable, \* those of them that asked for it
  Deaf,         \* those that are told the counts of their statements only with the receipt
  Keys,         \* the keys of rows; at first only the least of them has a row
  Verbs,        \* what a statement may do
  Length        \* how many statements a transaction has at most

CONSTANTS          \* the rules
  RowsCompared,    \* every row that the work removes is still there; if not, its statements run again, or it is refused
  KeysCompared,    \* nobody wrote a key that the work writes; if somebody did, the same
  NamesCompared,   \* nobody gave away a name that the work gives
  ConditionOnce,   \* a condition is not run again: it removes rows of its snapshot
  NotBesideDelete, \* what stands beside a condition is not run again
  NotBesideRead,   \* nor is what stands beside a read of rows
  NotBesideName,   \* nor what stands beside a name that means another table by now
  CountsHold,      \* what is run again tells what it has told
  ReadRowsHold,    \* of a table that a serializable transaction searched no row was changed
  ReadNamesHold    \* a name that a serializable transaction looked up means the same table

VARIABLES
  log, \* the states, from slot 0 on: rows, and what the names mean
  tx   \* the transactions: the slot they began on, their statements, the slot they took

vars == <<log, tx>>

------------------------------------------------------------------------------
Least  == CHOOSE k \in Keys : \A j \in Keys : k <= j
First  == [rows |-> {[table |-> "t", key |-> Least, by |-> "first"]}, names |-> [x |-> "t", y |-> "u"]]
Newest == Len(log) - 1
At(s)  == log[s + 1]

Swapped(names) == [x |-> names.y, y |-> names.x]

(* What is to be done: rows are always those of the table that "x" means. *)
Tasks == {[do |-> v, keys |-> k] : v \in Verbs \cap {"delete", "upsert", "insert", "count"}, k \in SUBSET Keys \ {{}}}
         \cup {[do |-> v, keys |-> {}] : v \in Verbs \cap {"look", "swap"}}

Idle == [step |-> "idle", from |-> 0, did |-> <<>>, slot |-> 0]

Init ==
  /\ log = <<First>>
  /\ tx = [w \in Txs |-> Idle]

------------------------------------------------------------------------------
(* Statements. The work of a transaction is its net effect on its base: rows of the base that are gone, those of     *)
(* them that a condition chose, its own new rows, and whether it gave the names anew.                                *)

Nothing == [gone |-> {}, chosen |-> {}, new |-> {}, swaps |-> FALSE]

Apply(work, s) == [rows  |-> (s.rows \ work.gone) \cup work.new,
                   names |-> IF work.swaps THEN Swapped(s.names) ELSE s.names]

Hits(task, table, s) == {r \in s.rows : r.table = table /\ r.key \in task.keys}

Told(task, table, s) == CASE task.do = "look" -> s.names.x
                          [] task.do = "swap" -> 0
                          [] OTHER            -> Cardinality(Hits(task, table, s))

(* The work after one more statement; `found` are the rows that it meets. *)
After(w, work, task, table, base, found) ==
  CASE task.do = "delete" -> [work EXCEPT !.gone = @ \cup (found \cap base.rows), !.new = @ \ found,
                                          !.chosen = @ \cup (found \cap base.rows)]
    [] task.do \in {"upsert", "insert"} ->
         [work EXCEPT !.gone = @ \cup (found \cap base.rows),
                      !.new = @ \cup {[table |-> table, key |-> k, by |-> w] : k \in task.keys}]
    [] task.do = "swap" -> [work EXCEPT !.swaps = ~@]
    [] OTHER -> work

(* Run statements one after the other on a base. `way` says which table each means: "name" is the one that "x" means *)
(* there, "table" the one that it meant when it first ran. "snapshot" is "table", but a condition stays with the     *)
(* rows of that state, and what was read is not read again.                                                          *)
RECURSIVE Run(_, _, _, _, _)
Run(w, did, base, way, snapshot) ==
  IF did = <<>> THEN [work |-> Nothing, told |-> <<>>]
  ELSE LET n      == Len(did)
           before == Run(w, SubSeq(did, 1, n - 1), base, way, snapshot)
           view   == Apply(before.work, base)
           d      == did[n]
           table  == IF way = "name" THEN view.names.x ELSE d.table
           stays  == way = "snapshot" /\ d.task.do \notin {"upsert", "insert"}
           found  == {r \in Hits(d.task, table, view) : stays => r \in snapshot.rows \/ r.by = w}
           told   == IF stays THEN d.told ELSE Told(d.task, table, view)
       IN [work |-> After(w, before.work, d.task, table, base, found), told |-> Append(before.told, told)]

ToldTo(w) == [i \in DOMAIN tx[w].did |-> tx[w].did[i].told]
Does(w, verbs) == \E i \in DOMAIN tx[w].did : tx[w].did[i].task.do \in verbs

Begin(w) ==
  /\ tx[w].step = "idle"
  /\ tx' = [tx EXCEPT ![w].step = "open", ![w].from = Newest]
  /\ UNCHANGED log

(* An insert of a key that is there raises, and changes nothing. *)
Do(w, task) ==
  /\ tx[w].step = "open" /\ Len(tx[w].did) < Length
  /\ LET base == At(tx[w].from)
         view == Apply(Run(w, tx[w].did, base, "table", base).work, base)
         told == Told(task, view.names.x, view)
     IN /\ task.do = "insert" => told = 0
        /\ tx' = [tx EXCEPT ![w].did = Append(@, [task |-> task, table |-> view.names.x, told |-> told])]
  /\ UNCHANGED log

------------------------------------------------------------------------------
(* Publishing: on the base, or moved, or run again, or refused. *)

Same(r, q) == r.table = q.table /\ r.key = q.key

Commit(w) ==
  /\ tx[w].step = "open" /\ tx[w].did # <<>>
  /\ LET base   == At(tx[w].from)
         head   == At(Newest)
         work   == Run(w, tx[w].did, base, "table", base).work
         lost   == IF RowsCompared THEN work.gone \ head.rows ELSE {}
         taken  == IF KeysCompared THEN {r \in work.new : \E q \in head.rows \ base.rows : Same(r, q)} ELSE {}
         again  == Run(w, tx[w].did, head, IF ConditionOnce THEN "snapshot" ELSE "table", base)
         replay == lost \cup taken # {}
         tables == {tx[w].did[i].table : i \in {i \in DOMAIN tx[w].did : tx[w].did[i].task.keys # {}}}
         looks  == Does(w, {"delete", "upsert", "insert", "count", "look"})
         changed == (head.rows \ base.rows) \cup (base.rows \ head.rows)
         refused ==
           \/ NamesCompared /\ work.swaps /\ head.names # base.names
           \/ w \in Serializable /\ ReadRowsHold /\ \E r \in changed : r.table \in tables
           \/ w \in Serializable /\ ReadNamesHold /\ looks /\ head.names.x # base.names.x
           \/ replay /\
              \/ ConditionOnce /\ lost \cap work.chosen # {}
              \/ NotBesideDelete /\ Does(w, {"delete"}) /\ Does(w, {"upsert", "insert"})
              \/ NotBesideRead /\ Does(w, {"count"})
              \/ NotBesideName /\ looks /\ head.names.x # base.names.x
              \/ CountsHold /\ w \notin Deaf /\ again.told # ToldTo(w)
              \/ \E i \in DOMAIN again.told : tx[w].did[i].task.do = "insert" /\ again.told[i] # 0
     IN IF refused
        THEN tx' = [tx EXCEPT ![w].step = "refused"] /\ UNCHANGED log
        ELSE /\ log' = Append(log, IF replay THEN Apply(again.work, head)
                                   ELSE [Apply(work, head) EXCEPT !.names =
                                           IF work.swaps THEN Swapped(base.names) ELSE head.names])
             /\ tx' = [tx EXCEPT ![w].step = "done", ![w].slot = Newest + 1]

Next == \E w \in Txs : Begin(w) \/ Commit(w) \/ \E task \in Tasks : Do(w, task)

Spec == Init /\ [][Next]_vars

------------------------------------------------------------------------------
(* What must hold *)

Done == {w \in Txs : tx[w].step = "done"}

OneRow == \A s \in 0..Newest : \A r, q \in At(s).rows : Same(r, q) => r = q

OwnSnapshot == \* what conditions removed was there when their transaction began
  \A w \in Done : ~Does(w, {"upsert", "insert"}) =>
    At(tx[w].slot - 1).rows \ At(tx[w].slot).rows \subseteq At(tx[w].from).rows

(* What w could act on, of all that it was told: who is deaf acts on what it reads alone. *)
Heard(w, told, reads) ==
  LET deaf(i) == IF tx[w].did[i].task.do \in {"count", "look"} THEN tx[w].did[i].task.do \notin reads ELSE w \in Deaf
  IN [i \in DOMAIN told |-> IF deaf(i) THEN 0 ELSE told[i]]

(* Whether w is as good as begun on slot b: there it would have been told the same of rows and names and done the     *)
(* same, and since then nobody has touched what it writes.                                                           *)
StandsOn(w, b) ==
  LET onto == At(tx[w].slot - 1)
      run  == Run(w, tx[w].did, At(b), "table", At(b))
  IN /\ Heard(w, run.told, {"count", "look"}) = Heard(w, ToldTo(w), {"count", "look"})
     /\ At(tx[w].slot) = Apply(run.work, onto)
     /\ run.work.gone \subseteq onto.rows
     /\ \A r \in run.work.new, q \in onto.rows \ At(b).rows : ~Same(r, q)
     /\ run.work.swaps => onto.names = At(b).names

Snapshot == \* snapshot isolation: every commit stands, whole, on one state
  \A w \in Done : \E b \in tx[w].from .. tx[w].slot - 1 : StandsOn(w, b)

ToldTrue == \* who was told how many keys had a row, and kept all that it wrote, could have been told so just before
  \A w \in {w \in Done \ Deaf : ~Does(w, {"delete"})} : \A i \in DOMAIN tx[w].did :
    LET d == tx[w].did[i] IN
      d.task.do \in {"upsert", "insert"} =>
        d.told = Run(w, tx[w].did, At(tx[w].slot - 1), "table", First).told[i]

Serial == \* serializable transactions were told, and did, what they would have been told and done one after the other
  Done \subseteq Serializable =>
    \E order \in [1..Cardinality(Done) -> Done] :
      /\ \A w \in Done : \E i \in DOMAIN order : order[i] = w
      /\ LET state[i \in 0..Cardinality(Done)] ==
               IF i = 0 THEN First
               ELSE LET w == order[i] IN Apply(Run(w, tx[w].did, state[i - 1], "name", First).work, state[i - 1])
         IN /\ state[Cardinality(Done)] = At(Newest)
            /\ \A i \in DOMAIN order :
                 LET w    == order[i]
                     told == Run(w, tx[w].did, state[i - 1], "name", First).told
                 IN Heard(w, told, {"count", "look"}) = Heard(w, ToldTo(w), {"count", "look"})

------------------------------------------------------------------------------
(* Not vacuous: each of these must be violated. *)

Late(w)  == tx[w].step = "done" /\ tx[w].slot > tx[w].from + 1
Lost(w)  == Run(w, tx[w].did, At(tx[w].from), "table", At(tx[w].from)).work.gone \ At(tx[w].slot - 1).rows
Again(w) == Run(w, tx[w].did, At(tx[w].slot - 1), "snapshot", At(tx[w].from)).told

NeverReplayed  == ~\E w \in Txs \ Deaf : Late(w) /\ Lost(w) # {}
NeverRecounted == ~\E w \in Deaf : Late(w) /\ Lost(w) # {} /\ Again(w) # ToldTo(w)
NeverDrifted   == \* a condition follows a commit that brought a row for which it would hold
  ~\E w \in Txs : Late(w) /\ \E i \in DOMAIN tx[w].did, r \in At(tx[w].slot).rows :
     tx[w].did[i].task.do = "delete" /\ r.key \in tx[w].did[i].task.keys /\ r.by \notin {"first", w}
NeverRenamed   == \* a transaction that is not serializable writes to its table under the new name
  ~\E w \in Txs \ Serializable : /\ Late(w) /\ At(tx[w].slot - 1).names # At(tx[w].from).names
                                 /\ At(tx[w].slot).rows # At(tx[w].slot - 1).rows
NeverBoth      == \* two serializable transactions that began together both change something
  ~\E w \in Serializable : Late(w) /\ At(tx[w].slot - 1) # At(tx[w].from) /\ At(tx[w].slot) # At(tx[w].slot - 1)

Symmetry == Permutations(Txs \ (Serializable \cup Deaf)) \cup Permutations(Serializable \ Deaf)
================================================================================
