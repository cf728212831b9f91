"""What the overview counts by says at every moment what counting the list would say."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from io import StringIO
from random import Random
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.utils import OperationalError

from rules.attempt import Attempt as GivenAttempt
from rules.words import Domain, State
from tests.verdicts.page_bodies import a_verdict, an_attempt, body, finding
from verdicts.choices import Origin
from verdicts.models import Attempt, Blame, ListRow, WeekTally
from verdicts.overview import tally
from verdicts.record import record_attempt

SUNDAY = datetime(2026, 11, 22, 23, 50, tzinfo=UTC)
BLAMED = (Domain.STORAGE, Domain.GPU_HARDWARE, Domain.AMBIGUOUS)
ENDED = (State.FAILED, State.HUNG, State.SUCCEEDED)


class _Undo(Exception):
    """Ends a step that is to leave nothing."""


class _History:
    """What may happen to attempts, drawn at random: each may be taken back by its transaction."""

    def __init__(self, random: Random) -> None:
        self.random, self.jobs = random, 0

    def step(self) -> None:
        often = (self.begin,) * 4 + (self.judge,) * 5
        work = self.random.choice((*often, self.end, self.end, self.forget, tally.fold))
        undone = self.random.random() < 0.2
        try:
            with transaction.atomic():
                work()
                if undone:
                    raise _Undo
        except _Undo:
            pass

    def _given(self, job: str, *, ended: bool) -> GivenAttempt:
        end = (SUNDAY + timedelta(minutes=self.random.randrange(30_000))).isoformat() if ended else None
        return GivenAttempt(job_id=job, start="2026-11-01T00:00:00Z", end=end)

    def begin(self) -> None:
        self.jobs += 1
        origin = self.random.choice((Origin.OWN, Origin.OWN, Origin.IMPORTED, Origin.DRILL))
        record_attempt(self._given(str(self.jobs), ended=self.random.random() < 0.5), origin=origin)

    def end(self) -> None:
        if found := Attempt.objects.filter(ended_at=None).order_by("id").first():
            record_attempt(self._given(found.job_id, ended=True))

    def judge(self) -> None:
        """A first verdict, or one that supersedes another."""
        if found := self._any(Attempt.objects.all()):
            names = self.random.sample(("gpu-1", "gpu-2", "gpu-3"), self.random.randrange(4))
            said = body(
                terminal_state=self.random.choice(ENDED).value,
                attributed_domain=self.random.choice(BLAMED).value,
                affected_nodes=[{"name": name, "gpus": [], "ranks": [], "links": []} for name in names],
                shared_element={"kind": "switch", "name": "leaf-3", "nodes": names} if names else None,
                causes=[_down(f"f{number}") for number in range(self.random.randrange(3))],
            )
            a_verdict(found, said, number=found.verdicts.count() + 1)

    def forget(self) -> None:
        if found := self._any(Attempt.objects.filter(verdicts=None)):
            found.delete()

    def _any(self, among: QuerySet[Attempt]) -> Attempt | None:
        found = list(among.order_by("job_id"))
        return self.random.choice(found) if found else None


def _down(identity: str) -> dict[str, Any]:
    """A finding that blames a port."""
    locus = {"switch": "leaf-3", "port": "7"}
    return finding(identity, "network.link-down", "A link went down", domain="network_fabric", locus=locus)


def told() -> Counter[tuple[str, str, str]]:
    """The tally's numbers."""
    found: Counter[tuple[str, str, str]] = Counter()
    for line in WeekTally.objects.all():
        found[f"{line.week}", line.state, line.domain] += line.number
    return found


def blame() -> Counter[tuple[str, str]]:
    """Who is blamed how often."""
    return Counter(Blame.objects.values_list("kind", "name"))


@pytest.mark.django_db
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_whatever_happens_tally_and_blame_are_what_the_list_has(seed: int) -> None:
    history = _History(Random(seed))
    for _ in range(8):
        history.begin()
    for _ in range(40):
        history.step()
    assert ListRow.objects.filter(origin="own", is_current=True).count() == sum(told().values()) > 3
    assert tally.differences() == []
    assert tally.misblamed() == []
    before, blamed = told(), blame()
    assert {kind for kind, _ in blamed} == {"node", "shared", "port_of_switch"}
    tally.fold()
    assert WeekTally.objects.count() == len([number for number in before.values() if number])
    assert +told() == +before
    with connection.cursor() as cursor:
        cursor.execute("SELECT verdicts_list_all()")
    assert +told() == +before
    assert blame() == blamed
    assert tally.differences() == []
    assert tally.misblamed() == []


@pytest.mark.django_db
def test_weeks_begin_on_monday_in_utc() -> None:
    for minutes in (0, 20):
        end = (SUNDAY + timedelta(minutes=minutes)).isoformat()
        a_verdict(an_attempt(str(minutes), end=end), body(attributed_domain="storage"))
    assert +told() == {("2026-11-16", "failed", "storage"): 1, ("2026-11-23", "failed", "storage"): 1}


@pytest.mark.django_db(transaction=True)
def test_writers_of_one_week_do_not_wait_and_a_fold_between_them_loses_nothing() -> None:
    for number in range(2):
        a_verdict(an_attempt(str(number), end=SUNDAY.isoformat()), body(attributed_domain="storage"))
    first, second = ListRow.objects.values_list("pk", flat=True)
    changed = "UPDATE verdicts_listrow SET domain = 'facility' WHERE id = %s"
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute(changed, [first])
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '2s'")
            cursor.execute(changed, [second])
        tally.fold()
        assert +told() == {("2026-11-16", "failed", "storage"): 1, ("2026-11-16", "failed", "facility"): 1}
        # To count anew means to wait for who has written a row already.
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '50ms'")
            with pytest.raises(OperationalError, match="lock timeout"), transaction.atomic():
                tally.rebuild()
    tally.fold()
    assert +told() == {("2026-11-16", "failed", "facility"): 2}
    assert tally.differences() == []


@pytest.mark.django_db(transaction=True)
def test_a_tally_that_is_wrong_is_told_of_and_made_anew() -> None:
    verdict = a_verdict(an_attempt("1", end=SUNDAY.isoformat()), body(attributed_domain="storage"))
    Blame.objects.create(row=verdict.pk, happened_at=SUNDAY, state="failed", kind="node", name="gpu-9")
    WeekTally.objects.create(week="2026-11-16", state="failed", domain="storage", number=4)
    said = StringIO()
    with pytest.raises(SystemExit):
        call_command("check_tally", stdout=said)
    assert said.getvalue() == f"week of 2026-11-16, failed, storage: 5 told, 1 there\nrow {verdict.pk} blames others\n"
    call_command("check_tally", "--rebuild", stdout=said)
    assert tally.differences() == tally.misblamed() == []
    assert not Blame.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE verdicts_listrow")
    assert WeekTally.objects.count() == 0
