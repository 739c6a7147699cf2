"""View: nothing that is read through one view changes while a rule runs, whatever others write meanwhile."""

from collections.abc import Callable, Iterator

import pytest
from engines.engine_support import MAIN, NEVER, SAVED, New, Store, key, meanwhile, records
from statekeep_server.core.journal import KEY, Change, Record, View

LOOKS: dict[str, Callable[[View], object]] = {
    "exists": lambda view: view.exists,
    "life": lambda view: view.life,
    "revision": lambda view: view.revision,
    "oldest": lambda view: view.oldest,
    "create_time": lambda view: view.create_time,
    "update_time": lambda view: view.update_time,
    "alive": lambda view: view.alive,
    "kept": lambda view: view.kept,
    "head": lambda view: view.head(key("k")),
    "head of a new key": lambda view: view.head(key("new")),
    "upto": lambda view: view.upto(SAVED, NEVER),
    "upto among equals": lambda view: view.upto(SAVED, 5),
    "find an old event": lambda view: view.find(MAIN, "e1"),
    "find a new event": lambda view: view.find(MAIN, "new"),
    "find an old record": lambda view: view.find(SAVED, "c1"),
    "find a new record": lambda view: view.find(SAVED, "new"),
    "number of events": lambda view: view.number(MAIN),
    "number of a key": lambda view: view.number(key("k")),
    "number of a new key": lambda view: view.number(key("new")),
    "count of events": lambda view: view.count(MAIN),
    "count of records": lambda view: view.count(SAVED),
    "count of a new log": lambda view: view.count("enew"),
    "born": lambda view: view.born(MAIN),
    "born of a new log": lambda view: view.born("enew"),
    "live": lambda view: view.live(KEY, 0),
    "scan of events": lambda view: list(view.scan(MAIN)),
    "scan of records": lambda view: list(view.scan(SAVED, newest_first=True)),
    "scan of a key": lambda view: list(view.scan(key("k"))),
    "chunk": lambda view: view.chunk(MAIN, 0, NEVER),
    "chunk of a few": lambda view: view.chunk(MAIN, 0, NEVER, 2),
    "back": lambda view: view.back(MAIN, 2, NEVER)[0],
    "logs": lambda view: list(view.logs("")),
    "journal": lambda view: list(view.journal(KEY, 0)),
}
WRITTEN_MEANWHILE = [
    New(id="new", text="x" * 300_000),
    New(number=1000),
    New("enew"),
    New(key("k")),
    New(key("new")),
    New(key("expiring"), expires=5),
    New(SAVED, 5, "new"),
    New(SAVED, 1, "new2"),
]


@pytest.fixture
def filled(store: Store) -> Store:
    store.append("p", New(id="e1"), New(id="e2"), New(id="e3", text="x" * 200_000))
    store.append("p", New(key("k")), New(key("deleted"), deleted=True), New(SAVED, 5, "c1"), New(SAVED, 3, "c2"))
    return store


def before_and_after(store: Store, look: Callable[[View], object], decide: Callable[[View], Change]) -> tuple:
    """Return what is seen before and after a change that another thread makes in the midst of a query."""
    made: list[bool] = []

    def query(view: View) -> tuple[object, object]:
        before = look(view)
        if not made:
            made.append(True)
            meanwhile(store.engine, "p", decide)
        return before, look(view)

    return store.look("p", query)


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_view_stays_as_it_was_while_others_append(filled: Store, look: Callable[[View], object]) -> None:
    newest = filled.look("p", lambda view: view.revision)
    before, after = before_and_after(filled, look, lambda view: Change(None, records(view, WRITTEN_MEANWHILE)))
    assert after == before
    assert filled.look("p", lambda view: view.revision) == newest + len(WRITTEN_MEANWHILE)


def replacing(view: View) -> Change[None]:
    """Decide to replace one record, trim another, and move the oldest cursor on."""
    trims = [record for log in (SAVED, key("k")) for record in view.scan(log)]
    made = records(view, [New(SAVED, 2, "c1"), *WRITTEN_MEANWHILE])
    return Change(None, made, trims, made[0].revision)


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_view_stays_as_it_was_while_others_replace_and_trim(filled: Store, look: Callable[[View], object]) -> None:
    before, after = before_and_after(filled, look, replacing)
    assert after == before
    assert filled.look("p", lambda view: view.count(SAVED)) == 3


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_view_stays_as_it_was_while_others_end_the_partition(filled: Store, look: Callable[[View], object]) -> None:
    before, after = before_and_after(filled, look, lambda view: Change(None, drop=True))
    assert after == before
    assert filled.partitions() == []


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_view_of_nothing_stays_so_while_others_begin_the_partition(
    store: Store, look: Callable[[View], object]
) -> None:
    before, after = before_and_after(store, look, lambda view: Change(None, records(view, WRITTEN_MEANWHILE)))
    assert after == before
    assert store.partitions() == ["p"]


def iterators(view: View) -> list[Iterator[Record]]:
    return [view.scan(MAIN), view.scan(SAVED), view.journal(KEY, 0)]


def test_an_iterator_goes_on_over_what_there_was_at_one_moment(filled: Store) -> None:
    made: list[bool] = []

    def query(view: View) -> list[list[Record]]:
        begun = iterators(view)
        firsts = [next(iterator) for iterator in begun]
        if not made:
            made.append(True)
            meanwhile(filled.engine, "p", lambda view: Change(None, records(view, WRITTEN_MEANWHILE)))
        return [[first, *rest] for first, rest in zip(firsts, begun, strict=True)]

    def whole(view: View) -> list[list[Record]]:
        return [list(iterator) for iterator in iterators(view)]

    before = filled.look("p", whole)
    seen = filled.look("p", query)
    # An engine may keep the moment, or make the query again at a later one.
    assert seen in (before, filled.look("p", whole))


def test_a_query_that_fails_for_a_change_in_between_is_made_again(filled: Store) -> None:
    made: list[bool] = []

    def query(view: View) -> int:
        if not made:
            made.append(True)
            meanwhile(filled.engine, "p", replacing)
            raise LookupError("what was looked at is gone")
        return view.count(SAVED)

    try:
        answer = filled.look("p", query)
    except LookupError:
        answer = 0  # an engine may also not have noticed: the view is still of the moment before
    assert answer in (0, 3)


def test_a_change_is_decided_on_the_newest_view(filled: Store) -> None:
    seen: list[int] = []

    def decide(view: View) -> Change[int]:
        seen.append(view.count(MAIN))
        return Change(view.count(MAIN), records(view, [New()]))

    assert [filled.write("p", decide) for _ in range(5)] == [3, 4, 5, 6, 7]
    assert seen == [3, 4, 5, 6, 7]
