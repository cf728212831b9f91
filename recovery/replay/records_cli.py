"""`inquest replay --records`: exported records under other rules, here and on every core, without a database.

What is done is a line of the log file, if one is named: the same command goes on behind it.
"""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from hashlib import file_digest
from pathlib import Path
from typing import Any

import click
import msgspec

from recovery.record import beside
from recovery.record.again import conclude, observations, ruleset_text_of
from recovery.record.container import BadRecord
from recovery.record.read import Record, open_record
from recovery.replay import blame
from recovery.replay.ablate import Ablation, Given, Unanswerable, ablated
from recovery.replay.compare import gist, moved, same
from rules.attempt import Attempt, CollectorReport
from rules.engine import attribute
from rules.rule import RuleError
from rules.ruleset import Ruleset, load_ruleset, ruleset_from
from rules.verdict import canonical_json, plain_text

SAME, OTHERWISE, UNUSABLE, AWAY, NOT_DONE = range(5)
Row = dict[str, Any]


def run(
    paths: Iterable[Path],
    directory: Path | None,
    ablation: Ablation | None,
    *,
    own: bool,
    log: Path | None,
    as_json: bool,
) -> int:
    """Replay records and print the report; says the exit status."""
    try:
        tried = None if own or ablation is not None else load_ruleset(directory)
        files = list(_files(paths))
        asked = _asked(tried, ablation)
        told = _done(log, asked)
        left = [(path, digest) for path, digest in files if digest not in told]
    except RuleError as error:
        click.echo(f"inquest: the rules cannot be used: {plain_text(str(error))}", err=True)
        return AWAY
    except (OSError, ValueError) as error:
        click.echo(f"inquest: {plain_text(str(error))}", err=True)
        return UNUSABLE
    finished = _each(left, tried, ablation, told, log, asked)
    rows = [told[digest] for _, digest in files if digest in told]
    _say(rows, as_json=as_json)
    if not finished:
        click.echo("not done" + (f": the same command goes on behind {log}" if log else ""), err=True)
        return NOT_DONE
    bad = any(row["outcome"] == "refused" for row in rows)
    otherwise = any(row["weighty"] or row["reproducible"] is False for row in rows)
    return UNUSABLE if bad else OTHERWISE if otherwise else SAME


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Each record once, with the hash of its bytes."""
    seen: set[str] = set()
    for path in paths:
        for file in sorted(path.rglob("*.zip")) if path.is_dir() else [path]:
            with file.open("rb") as opened:
                digest = file_digest(opened, "sha256").hexdigest()
            if digest not in seen:
                seen.add(digest)
                yield file, digest


def _asked(tried: Ruleset | None, ablation: Ablation | None) -> str:
    return f"ruleset {tried.digest}" if tried is not None else str(ablation) if ablation is not None else "own rules"


#: What every line of a log has.
_KEYS = {"record", "asked", "outcome", "weighty", "reproducible"}


def _done(log: Path | None, asked: str) -> dict[str, Row]:
    """What a log has, by the hash of the record. Raises ValueError where it is another question's."""
    told: dict[str, Row] = {}
    if log is None or not log.exists():
        return told
    for number, line in enumerate(log.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError:
            # The last line of a process that was killed while it wrote: done again.
            continue
        if not isinstance(row, dict) or not row.keys() >= _KEYS or not isinstance(row["record"], str):
            raise ValueError(f"{log}:{number}: it is no line of such a log")
        if row["asked"] != asked:
            raise ValueError(f"{log}:{number}: it is the log of another question: {row.get('asked')}")
        told[row["record"]] = row
    return told


def _each(
    left: list[tuple[Path, str]],
    tried: Ruleset | None,
    ablation: Ablation | None,
    told: dict[str, Row],
    log: Path | None,
    asked: str,
) -> bool:
    """Replay what is left on every core, each written as it is done; False where somebody stopped it."""
    if not left:
        return True
    pool = ProcessPoolExecutor(min(os.cpu_count() or 1, len(left)), initializer=_start, initargs=(tried, ablation))
    out = log.open("a") if log else None
    try:
        for done, (row, (path, digest)) in enumerate(
            zip(pool.map(_one, (path for path, _ in left)), left, strict=True), 1
        ):
            told[digest] = {"record": digest, "file": path.name, "asked": asked} | row
            if out is not None:
                out.write(json.dumps(told[digest], ensure_ascii=False) + "\n")
                out.flush()
            if os.isatty(2):
                click.echo(f"\r\x1b[K{done:,} of {len(left):,}", nl=done == len(left), err=True)
    except KeyboardInterrupt:
        return False
    finally:
        pool.shutdown(cancel_futures=True)
        if out is not None:
            out.close()
    return True


# --- In each process ------------------------------------------------------------------------------

_TRIED: tuple[Ruleset | None, Ablation | None] = (None, None)


def _start(tried: Ruleset | None, ablation: Ablation | None) -> None:
    global _TRIED  # noqa: PLW0603 - what a process of the pool is for
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _TRIED = (tried, ablation)


def _one(path: Path) -> Row:
    """What came of one record, as a line of the log."""
    try:
        with path.open("rb") as file:
            return _replayed(open_record(file, (), beside.near(path)), *_TRIED)
    except BadRecord as error:
        return _row("refused", why=str(error))
    except Unanswerable as error:
        return _row("unreplayable", why=str(error))
    except OSError as error:
        return _row("refused", why=f"{error}")


def _replayed(record: Record, tried: Ruleset | None, ablation: Ablation | None) -> Row:
    again = conclude(record)
    stored = msgspec.json.decode(record.body(again.told))
    own = msgspec.json.decode(again.raw)
    given = Given(
        record.read("attempt.json", Attempt),
        [msgspec.structs.replace(one, observed_timestamp=None) for one in observations(record)],
        record.read("reports.json", list[CollectorReport]),
    )

    def concluded(rules: Ruleset, evidence: Given = given) -> Row:
        verdict = attribute(evidence.attempt, evidence.observations, evidence.reports, rules, mode=again.told.mode)
        body: Row = msgspec.json.decode(canonical_json(verdict))
        return body

    named = {"attempt": record.about.attempt, "cluster": record.about.cluster, "job_id": record.about.job_id}
    more: Row = named | {"reproducible": again.same, "why": "; ".join(again.why)}
    before, after = own, own
    rules: list[str] = []
    if ablation is not None:
        fault = frozenset(gist(own)["nodes"])
        after = concluded(_own_rules(record, again.told.ruleset, again.told.layers), ablated(given, ablation, fault))
    elif tried is None:
        before = stored
    elif tried.digest != again.told.ruleset:
        after = concluded(tried)
        if not same(before, after):
            mine = _own_rules(record, again.told.ruleset, again.told.layers)
            rules = list(blame.blamed(mine, tried, before, after, given.observations, concluded).rules)
    if same(before, after):
        return _row("same", **more)
    change = moved(before, after)
    if ablation is not None and not change.weighty:
        return _row("same", **more)
    told = {"weighty": change.weighty, "move": change.move, "said": change.said, "rules": rules}
    return _row("changed", **more, **told, before=gist(before), after=gist(after))


def _own_rules(record: Record, digest: str, layers: list[str]) -> Ruleset:
    # `conclude` has looked that they are there and are what they say.
    return ruleset_from(ruleset_text_of(record, digest) or (), layers)


def _row(outcome: str, **more: Any) -> Row:
    usual: Row = {
        "outcome": outcome,
        "weighty": False,
        "move": "",
        "said": [],
        "rules": [],
        "reproducible": None,
        "why": "",
    }
    return usual | more


# --- The report -------------------------------------------------------------------------------------


def _say(rows: list[Row], *, as_json: bool) -> None:
    if as_json:
        click.echo(
            json.dumps({"items": rows, "counts": Counter(row["outcome"] for row in rows)}, ensure_ascii=False, indent=2)
        )
        return
    counted = Counter(row["outcome"] for row in rows)
    click.echo(
        f"records  {len(rows):,}: "
        + (", ".join(f"{number:,} {word}" for word, number in sorted(counted.items())) or "none")
    )
    groups: dict[tuple[bool, str, tuple[str, ...]], list[Row]] = {}
    for row in rows:
        if row["outcome"] == "changed":
            groups.setdefault((not row["weighty"], row["move"], tuple(row["rules"])), []).append(row)
    for (light, move, rules), of_group in sorted(groups.items(), key=lambda one: (one[0][0], -len(one[1]))):
        by = f" by {', '.join(rules)}" if rules else ""
        click.echo(f"\n{move}{by} ({len(of_group):,}{', of no weight' if light else ''})")
        for row in of_group:
            click.echo(
                plain_text(
                    f"  {row['attempt']}  job {row['job_id']} on {row['cluster'] or 'no cluster named'}  {row['file']}"
                )
            )
            for said in row["said"][:6]:
                click.echo(plain_text(f"      {said}"))
    for row in rows:
        if row["reproducible"] is False:
            click.echo(plain_text(f"NOT THE SAME under its own rules: {row['attempt']}  {row['file']}: {row['why']}"))
        elif row["outcome"] in ("refused", "unreplayable"):
            click.echo(plain_text(f"{row['outcome']}: {row['file']}: {row['why']}"))
