"""Refs: create-only generations, of which exactly one writer creates each."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.ledger.building import race_for_ref

from quire.errors import CorruptRecord, NewerFormat
from quire.ledger import Line, Point, Ref, Refs, Segment, encode, new_ref
from quire.store import Store, metering
from quire.testing import processes
from quire.testing.ledger import EPOCH

RACERS = 12


def branch(name: str, kind: str = "branch") -> Ref:
    line = Line("id", (Segment("parent", 3, 0),))
    return new_ref(kind, name, author="tester", time=EPOCH, line=line, target=Point("parent", 3))  # type: ignore[arg-type]


def gone(name: str) -> Ref:
    return new_ref("gone", name, author="tester", time=EPOCH)


def test_a_ref_that_never_was_is_none(store: Store) -> None:
    assert Refs(store).get("branch", "dev") == (None, -1)
    assert list(Refs(store).list("branch")) == []


def test_a_ref_comes_back_as_it_was(store: Store) -> None:
    line = Line(branch="main").fork("child", Point(branch="main", slot=3, index=1))
    ref = new_ref(
        "branch",
        "dev",
        author="Ada",
        time=EPOCH,
        message="for trying",
        line=line,
        target=Point(branch="main", slot=3, index=1),
        checkpoint=Point(branch="main", slot=0),
    )
    assert Refs(store).create("branch", ref, 0)
    assert Refs(store).get("branch", "dev") == (ref, 0)


def test_the_newest_generation_counts(store: Store) -> None:
    refs, made = Refs(store), [branch("dev"), gone("dev"), branch("dev"), gone("dev"), branch("dev")]
    for generation, ref in enumerate(made):
        assert refs.create("branch", ref, generation)
        assert refs.get("branch", "dev") == (ref, generation)


def test_a_generation_is_created_once(store: Store) -> None:
    refs, first = Refs(store), branch("dev")
    assert refs.create("branch", first, 0)
    assert not refs.create("branch", branch("dev"), 0)
    assert refs.create("branch", first, 0), "one's own retry is a success"
    assert refs.get("branch", "dev") == (first, 0)


def test_a_ref_moved_many_times_is_found_in_few_requests(memory: Store) -> None:
    refs = Refs(memory)
    for generation in range(100):
        refs.create("branch", branch("dev") if generation % 2 == 0 else gone("dev"), generation)
    with metering() as cost:
        ref, generation = refs.get("branch", "dev")
    assert ref is not None
    assert (ref.kind, generation) == ("gone", 99)
    assert cost.hops <= 4
    assert cost.total <= 128


def test_an_ordinary_ref_is_found_in_one_hop(memory: Store) -> None:
    refs = Refs(memory)
    refs.create("branch", branch("dev"), 0)
    with metering() as cost:
        refs.get("branch", "dev")
    assert cost.hops == 1
    assert cost.total <= 8


def test_branches_and_tags_of_one_name_are_apart(store: Store) -> None:
    refs, b, t = Refs(store), branch("v1"), branch("v1", "tag")
    assert refs.create("branch", b, 0)
    assert refs.create("tag", t, 0)
    assert (refs.get("branch", "v1"), refs.get("tag", "v1")) == ((b, 0), (t, 0))
    assert (list(refs.list("branch")), list(refs.list("tag"))) == ([b], [t])


def test_the_listing_has_living_refs_in_their_newest_generation(store: Store) -> None:
    refs = Refs(store)
    alive, again = branch("b-alive"), branch("c-again")
    for generation, ref in enumerate([branch("a-gone"), gone("a-gone")]):
        refs.create("branch", ref, generation)
    refs.create("branch", alive, 0)
    for generation, ref in enumerate([branch("c-again"), gone("c-again"), again]):
        refs.create("branch", ref, generation)
    assert list(refs.list("branch")) == [alive, again]


ODD = [
    "feature/login",
    "a/b/c",
    "ä ö 表 \U0001f4da",
    "%2F",
    "a%2Fb",
    "a b",
    "a+b",
    ".",
    "..",
    "../../format.json",
    "-x",
    "a#1",
    "x.quire-tmp",
    "tag.x",
    "a:b*c?d<e>|f",
    'quo"te',
    "back\\slash",
    "new\nline",
    "x" * 200,
    "表" * 22,
]


def test_names_with_odd_characters_are_kept_apart_and_listed(store: Store) -> None:
    refs, made = Refs(store), {name: branch(name) for name in ODD}
    for ref in made.values():
        assert refs.create("branch", ref, 0)
    for name, ref in made.items():
        assert refs.get("branch", name) == (ref, 0)
    assert {ref.name: ref for ref in refs.list("branch")} == made
    assert list(refs.list("tag")) == []


def test_a_ref_stays_inside_its_folder(tmp_path: Path) -> None:
    refs = Refs(Store.open(tmp_path / "lake"))
    refs.create("branch", branch("../../../outside"), 0)
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]
    assert [path.name for path in (tmp_path / "lake" / "_quire").iterdir()] == ["refs"]


# -- races -------------------------------------------------------------------------------------------------------------


def check_one_wins(store: Store, names: list[str], results: list[list[tuple[str, bool]]]) -> None:
    for number, name in enumerate(names):
        winners = [write for write, won in (result[number] for result in results) if won]
        ref, generation = Refs(store).get("branch", name)
        assert ref is not None
        assert (winners, generation) == ([ref.write], 0)


def test_of_threads_that_create_one_name_one_wins(place: tuple[str, Mapping[str, str]], store: Store) -> None:
    names = ["one", "two/three"]
    barrier = threading.Barrier(RACERS)
    with ThreadPoolExecutor(RACERS) as pool:
        futures = [pool.submit(race_for_ref, *place, barrier, names) for _ in range(RACERS)]
        check_one_wins(store, names, [future.result(120) for future in futures])


def test_of_processes_that_create_one_name_one_wins(tmp_path: Path) -> None:
    names = [f"branch/{n}" for n in range(10)]
    spawn = processes.context()
    with spawn.Manager() as manager, ProcessPoolExecutor(4, mp_context=spawn) as pool:
        barrier = manager.Barrier(4)
        futures = [pool.submit(race_for_ref, str(tmp_path), {}, barrier, names) for _ in range(4)]
        check_one_wins(Store.open(tmp_path), names, [future.result(120) for future in futures])


# -- damage ------------------------------------------------------------------------------------------------------------

KEY = "_quire/refs/branch.dev/0000000000"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"format":1,"kind":"castle"}'])
def test_a_ref_of_garbage_is_named(memory: Store, body: bytes) -> None:
    memory.put(KEY, body)
    for read in (lambda: Refs(memory).get("branch", "dev"), lambda: list(Refs(memory).list("branch"))):
        with pytest.raises(CorruptRecord) as caught:
            read()
        assert caught.value.object == KEY


def test_a_ref_of_the_future_is_refused(memory: Store) -> None:
    memory.put(KEY, b'{"format":999}')
    with pytest.raises(NewerFormat):
        Refs(memory).get("branch", "dev")


def test_a_ref_under_another_name_is_corrupt(memory: Store) -> None:
    memory.put(KEY, encode(branch("prod")))
    for read in (lambda: Refs(memory).get("branch", "dev"), lambda: list(Refs(memory).list("branch"))):
        with pytest.raises(CorruptRecord, match="it says that it is the ref 'prod'"):
            read()


def test_a_generation_of_garbage_is_not_overwritten(memory: Store) -> None:
    memory.put(KEY, b"garbage")
    with pytest.raises(CorruptRecord):
        Refs(memory).create("branch", branch("dev"), 0)
    assert memory.get(KEY) == b"garbage"


# -- lines -------------------------------------------------------------------------------------------------------------


def test_a_line_knows_who_owns_each_slot() -> None:
    main = Line(branch="main")
    child = main.fork("child", Point("main", 10, 1))
    grand = child.fork("grand", Point("child", 20, 0))
    assert (main.start, child.start, grand.start) == (0, 11, 21)
    owners = {slot: grand.owner(slot) for slot in (0, 10, 11, 20, 21, 10**9)}
    assert owners == {0: "main", 10: "main", 11: "child", 20: "child", 21: "grand", 10**9: "grand"}
    assert [grand.limit(slot) for slot in (9, 10, 11, 20, 21)] == [None, 1, None, 0, None]


def test_a_line_contains_its_own_commits_and_no_other() -> None:
    line = Line(branch="main").fork("child", Point("main", 10, 1))
    inside = [Point("main", 0), Point("main", 9, 5), Point("main", 10, 0), Point("main", 10, 1), Point("child", 11)]
    outside = [Point("main", 10, 2), Point("main", 11), Point("child", 10), Point("child", 5), Point("other", 3)]
    assert [line.contains(point) for point in inside] == [True] * 5
    assert [line.contains(point) for point in outside] == [False] * 5
