"""Looking whether a source can be trusted to speak: the contract check behind `inquest sources check`.

`judge` is pure: what a probe found in, a plain answer with what to fix out. `check` asks the sources, several at
once, and stores the answers, unless it is of a file that the site does not run with.
"""

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, connections
from django.db.models.functions import Now
from django.utils import timezone

from rules.ruleset import Ruleset
from rules.words import ReportStatus, Source
from verdicts.choices import RequestState, SourceHealth
from verdicts.clusters import current_clusters
from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.config import Clusters, ClusterSettings
from verdicts.collectors.source import Probe, SourceSettings
from verdicts.conclude import current_ruleset
from verdicts.models import Attempt, CollectionTask, Node, SourceState
from verdicts.own import own
from verdicts.redaction import clean_text
from verdicts.sources import standing
from verdicts.storable import storable

log = logging.getLogger(__name__)

#: A source whose newest record is older than this tells nothing of now.
STALE = timedelta(minutes=30)
#: Kinds of which a running cluster always has something new; of the others silence is no sign.
STEADY = frozenset({Source.SYSLOG, Source.NODE_METRICS, Source.NETWORK_METRICS})
#: Clocks further apart than this put lines into the wrong order.
CLOCKS_APART = timedelta(seconds=2)
#: Of the nodes asked for so many must be known, or labels do not join.
FEW_NODES = 0.5
#: Nodes asked for: those that had an attempt within so long, at most so many.
NODES_WITHIN, MAX_NODES = timedelta(days=7), 200
SECONDS, MEGABYTES, AT_ONCE = 10.0, 16, 8
SHOWN = 5
#: So many of the latest attempts are looked at for how long a source has had nothing.
LATEST = 50
#: A running site checks every few minutes: what file it runs with is known for so long after the last check.
SITE_KNOWN = timedelta(hours=1)
#: Characters of one sentence, and how many notes are kept.
MAX_WORDS, MAX_NOTES = 2000, 20


@dataclass(frozen=True)
class Checked:
    """What a look at a source came to. `fix` says what to do, each a sentence; empty where nothing is to be done."""

    cluster: str
    name: str
    kind: str
    source: str
    health: str
    summary: str
    fix: list[str] = field(default_factory=list)
    version: str = ""
    newest: str | None = None
    age_seconds: float | None = None
    late_seconds: float | None = None
    clock_seconds: float | None = None
    nodes_asked: int = 0
    nodes_known: int = 0
    nodes_missing: list[str] = field(default_factory=list)
    rules: int = 0
    rules_only_here: int = 0
    notes: list[str] = field(default_factory=list)


def judge(
    cluster: ClusterSettings,
    source: SourceSettings,
    found: Probe | SourceError,
    nodes: Sequence[str],
    ruleset: Ruleset,
    now: datetime,
    *,
    without: int = 0,
) -> Checked:
    """Say what a probe's answer means for the verdicts of a cluster.

    `without` is how many attempts in a row, the latest first, it had nothing for.
    """
    rules = [rule for rule in ruleset.rules if source.source in rule.match.sources]
    others = {one.source for one in cluster.source if one.name != source.name}
    said: dict[str, Any] = {
        "cluster": cluster.name,
        "name": source.name,
        "kind": source.kind,
        "source": source.source.value,
        "rules": len(rules),
        "rules_only_here": sum(1 for rule in rules if not others & set(rule.match.sources)),
        "nodes_asked": len(nodes),
    }
    if isinstance(found, SourceError):
        return Checked(
            **said, health=SourceHealth.BLIND.value, summary="it cannot be asked", fix=[str(found)], nodes_missing=[]
        )
    blind, wrong = _problems(source, found, nodes, now)
    if found.nothing and without:
        blind.insert(0, (_never(found.nothing, without), NEVER))
    if by_job := found.jobs is not None and not found.nodes:
        nodes, said["nodes_asked"] = (), 0
    missing = [name for name in nodes if name not in found.nodes]
    said |= {
        "version": found.version,
        "newest": found.newest.astimezone(UTC).isoformat() if found.newest else None,
        "age_seconds": round((now - found.newest).total_seconds(), 1) if found.newest else None,
        "late_seconds": _late(found),
        "clock_seconds": round((found.server_time - now).total_seconds(), 1) if found.server_time else None,
        "nodes_known": len(nodes) - len(missing),
        "nodes_missing": missing[:SHOWN],
        "notes": list(found.notes),
    }
    if blind:
        return Checked(**said, health=SourceHealth.BLIND.value, summary=blind[0][0], fix=[f for _, f in blind + wrong])
    if wrong:
        summary = "; ".join(what for what, _ in wrong)
        return Checked(**said, health=SourceHealth.DEGRADED.value, summary=summary, fix=[f for _, f in wrong])
    if found.newest is None:
        summary = "it answers and has nothing of late, which may well be so"
    elif by_job:
        summary = "it answers, and is asked by job"
    elif nodes:
        summary = f"it answers and knows {said['nodes_known']} of {len(nodes)} nodes"
    else:
        summary = "it answers; no node is known yet to ask for"
    return Checked(**said, health=SourceHealth.SEES.value, summary=summary)


def _problems(
    source: SourceSettings, found: Probe, nodes: Sequence[str], now: datetime
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """What makes a source blind and what should be mended: what it is, and what to do."""
    blind: list[tuple[str, str]] = []
    wrong: list[tuple[str, str]] = []
    steady = source.source in STEADY
    if found.jobs is not None and not found.nodes:
        nodes = ()  # it is asked by job: what it knows of nodes is no matter
    if found.newest is None and steady:
        blind.append(("it has no recent data", "Do the agents on the nodes still send? Is the selector right?"))
    if found.newest is None:
        nodes = ()
    elif steady and now - found.newest > STALE:
        age = round((now - found.newest).total_seconds() / 60)
        blind.append((f"its newest record is {age} minutes old", "Look whether the agents on the nodes still send."))
    elif found.newest - now > CLOCKS_APART * 30:
        ahead = round((found.newest - now).total_seconds())
        wrong.append((f"it has records from {ahead} s in the future", "Set the clocks of the nodes that send them."))
    known = [name for name in nodes if name in found.nodes]
    if nodes and not known:
        named = ", ".join(sorted(found.nodes)[:SHOWN]) or "none at all"
        blind.append(
            (
                "none of the cluster's nodes is in its labels",
                f"Wanted are names such as {', '.join(nodes[:SHOWN])}; its labels say {named}. Set the node label.",
            )
        )
    elif nodes and len(known) < len(nodes):
        missing = [name for name in nodes if name not in found.nodes]
        what = f"it knows {len(known)} of {len(nodes)} nodes"
        fix = f"Nothing came lately of {', '.join(missing[:SHOWN])}{' and others' if len(missing) > SHOWN else ''}."
        if steady or len(known) < FEW_NODES * len(nodes):
            wrong.append((what, fix))
    late = _late(found)
    if late is not None and late > source.lag:
        wrong.append((f"its data arrives {late:.0f} s late", f"Set lag to {late * 1.5:.0f} or more for this source."))
    if found.server_time is not None and abs(found.server_time - now) > CLOCKS_APART:
        apart = (found.server_time - now).total_seconds()
        wrong.append((f"its clock is {apart:+.0f} s from ours", "Keep both machines in time (chrony, NTP)."))
    return blind, wrong


NEVER = "Correct the source's root or paths, or look whether the jobs write where it looks."


def _never(nothing: str, without: int) -> str:
    return f"{nothing} for the last {without} attempt{'s' if without > 1 else ''} that ended"


def _late(found: Probe) -> float | None:
    """How late data arrives, by the store's own word; None where it does not say when it had its newest record.

    The age of the newest record is no measure of it: a source that speaks seldom is not late.
    """
    if found.newest is None or found.arrived is None:
        return None
    return round(max((found.arrived - found.newest).total_seconds(), 0.0), 1)


def check(
    *,
    cluster: str = "",
    name: str = "",
    nodes: Iterable[str] = (),
    of: Clusters | None = None,
    store: bool = True,
    by_site: bool = False,
) -> list[Checked]:
    """Look at the configured sources, all or some, and store what was found. `nodes` are asked for besides those known.

    `of` is another file than this process's; with `store` false nothing is written; `by_site` says that it is the
    running site that looks. Bounded: a source that hangs costs its own ten seconds.
    """
    chosen = [
        (where, source)
        for where, source in (of or current_clusters()).sources()
        if cluster in ("", where.name) and name in ("", source.name)
    ]
    ruleset = current_ruleset()
    known = {where.name: _nodes_of(where.name, nodes) for where, _ in chosen}
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        found = list(pool.map(lambda one: _probe(one[1], known[one[0].name]), chosen))
    out = []
    for (where, source), probe in zip(chosen, found, strict=True):
        checked = _clean(_judged(where, source, probe, known[where.name], ruleset))
        if store:
            _stored(where, source, checked, by_site=by_site)
        out.append(checked)
    return out


def check_in_turn() -> int:
    """Look at all sources for the running site unless another worker is at it; says how many are blind."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK])
        if not cursor.fetchone()[0]:
            return 0
        try:
            return sum(1 for checked in check(by_site=True) if checked.health == SourceHealth.BLIND)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


def own_file() -> str:
    """The clusters file of this process, "" without one."""
    path = settings.INQUEST_CLUSTERS_FILE
    return str(Path(path).resolve()) if path else ""


def site_file() -> str:
    """The clusters file that the running site's own checks are of, "" when none is known to run."""
    since = timezone.now() - SITE_KNOWN
    rows = SourceState.objects.filter(checked_at__gte=since, check_body__has_key="site_file").order_by("-checked_at")
    return str(rows.values_list("check_body__site_file", flat=True).first() or "")


def no_longer() -> list[SourceState]:
    """Rows of sources that gave evidence and are in the file no more: renamed or taken out."""
    names = {(cluster.name, source.name) for cluster, source in current_clusters().sources()}
    rows = (
        SourceState.objects.filter(answered_at__isnull=False)
        .select_related("cluster")
        .order_by("cluster__name", "name")
    )
    return [row for row in rows if (row.cluster.name, row.name) not in names]


#: Any number that nothing else in this database locks.
_LOCK = 4_711_031


def unconfigured(cluster: ClusterSettings) -> list[Source]:
    """The kinds of evidence that no source of a cluster gives, of those that such a cluster can have."""
    given = {source.source for source in cluster.source}
    by_kind = {"slurm": Source.SCHEDULER, "kubernetes": Source.KUBERNETES}
    records = {by_kind[one.kind] for one in cluster.discovery if one.kind in by_kind} or set(by_kind.values())
    cannot = set(by_kind.values()) - records
    return [source for source in Source if source not in given | cannot]


def _probe(source: SourceSettings, nodes: Sequence[str]) -> Probe | SourceError:
    try:
        return source.probe(nodes, Budget.of(seconds=min(source.seconds, SECONDS), megabytes=MEGABYTES))
    except SourceError as error:
        return error
    except Exception as error:
        log.exception("the check of source %s failed", source.name)
        return _fault(error)
    finally:
        connections.close_all()


def _judged(
    cluster: ClusterSettings, source: SourceSettings, found: Probe | SourceError, nodes: Sequence[str], ruleset: Ruleset
) -> Checked:
    """The answer, also where no sense can be made of what a probe found."""
    try:
        silent = _without(cluster.name, source.name) if isinstance(found, Probe) and found.nothing else 0
        return judge(cluster, source, found, nodes, ruleset, timezone.now(), without=silent)
    except Exception as error:
        log.exception("the check of source %s failed", source.name)
        return judge(cluster, source, _fault(error), nodes, ruleset, timezone.now())


def _fault(error: Exception) -> SourceError:
    return SourceError(f"the check failed, which is a fault of Inquest: {type(error).__name__}: {error}")


def _nodes_of(cluster: str, more: Iterable[str]) -> list[str]:
    since = timezone.now() - NODES_WITHIN
    lately = Node.objects.filter(own("attempts"), cluster__name=cluster, attempts__created_at__gte=since)
    names = set(lately.order_by("-created_at").values_list("name", flat=True).distinct()[:MAX_NODES])
    return sorted(names | set(more))


def _without(cluster: str, name: str) -> int:
    """For how many attempts in a row, the latest first, a source had nothing; of one never asked, how many ended."""
    since = timezone.now() - NODES_WITHIN
    ended = Attempt.objects.filter(own(), cluster__name=cluster, ended_at__gte=since, ended_at__lte=timezone.now())
    latest = list(ended.order_by("-ended_at").values_list("pk", flat=True)[:LATEST])
    tasks = CollectionTask.objects.filter(collection__attempt__in=latest, name=name, state=RequestState.DONE.value)
    said = dict(tasks.order_by("collection__round").values_list("collection__attempt", "status"))
    asked = [said[attempt] for attempt in latest if attempt in said]
    if not asked:
        return len(latest)
    had = (ReportStatus.OK.value, ReportStatus.PARTIAL.value)
    return next((index for index, status in enumerate(asked) if status in had), len(asked))


def _clean(checked: Checked) -> Checked:
    """The same without secrets in what the other side said, and no longer than can be read."""
    return replace(
        checked,
        summary=_short(checked.summary),
        version=_short(checked.version),
        fix=[*map(_short, checked.fix)],
        notes=[*map(_short, checked.notes[:MAX_NOTES])],
        nodes_missing=[*map(_short, checked.nodes_missing)],
    )


def _short(text: str) -> str:
    return clean_text(text)[:MAX_WORDS]


def _stored(cluster: ClusterSettings, source: SourceSettings, checked: Checked, *, by_site: bool) -> None:
    """Store what a check found; a source that turns blind, and one that sees again, is told of in the log."""
    row = standing.state_of(cluster.name, source)
    of_site = own_file() if by_site else row.check_body.get("site_file", "")
    body = asdict(checked) | ({"site_file": of_site} if of_site else {})
    blind = checked.health == SourceHealth.BLIND
    was = SourceState.objects.values_list("blind_since", flat=True).get(pk=row.pk)
    SourceState.objects.filter(pk=row.pk).update(
        health=checked.health,
        check_body=storable(body),
        checked_at=Now(),
        blind_since=(was or Now()) if blind else None,
        kind=source.kind,
        source=source.source.value,
    )
    if blind and was is None:
        log.error("source.blind cluster=%s source=%s: %s; %s", cluster.name, source.name, checked.summary, checked.fix)
    elif was is not None and not blind:
        log.warning("source.sees_again cluster=%s source=%s blind since %s", cluster.name, source.name, was)
    standing.forget()
