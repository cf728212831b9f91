"""What is looked at in a record that was obtained: from the file alone, with nothing of the store."""

import json
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import msgspec

from recovery.drill.planted import Planted, found
from recovery.drill.seen import Seen, failed, not_checked, passed
from recovery.record import again
from recovery.record.container import BadRecord, blocks, lines
from recovery.record.read import Record, open_record
from rules.attempt import CollectorReport
from rules.redact import Redactor, marks
from verdicts.verdict_page.presentation import seen_whole

#: Between the end of its time and its report a collector closes what it has open.
MARGIN = 1.0
#: So many findings of a kind are named.
NAMED = 10
#: The rules' own texts and the ledger's lines are no evidence: rules quote what secrets look like.
_NOT_EVIDENCE = ("data/rulesets/", "data/ledger/")


class _Told(msgspec.Struct, frozen=True):
    """A line of `collector_reports.jsonl`."""

    source: str
    collector: str
    body: CollectorReport


def verified(body: BinaryIO, keys: Collection[str]) -> tuple[Record | None, Seen]:
    """Whether the file verifies with these keys alone; the record to go on with."""
    if not keys:
        return None, not_checked("the public key of this site's ledger is not known here: see INQUEST_LEDGER_KEY_FILE")
    body.seek(0)
    try:
        record = open_record(body, keys)
    except BadRecord as error:
        return None, failed(f"refused: {error}")
    report = record.report
    said = (
        f"{report.files} files with {report.bytes:,} bytes are what was signed by {report.public_key[:16]}…;"
        f" {report.entries} of the ledger's entries with their chain"
    )
    facts = {
        "public_key": report.public_key,
        "payload": report.payload,
        "files": report.files,
        "bytes": report.bytes,
        "ledger_entries": report.entries,
        "covered_by_a_checkpoint": report.covered,
    }
    if not report.entries:
        return record, failed("it verifies, and has no entry of the ledger: its begin was entered before", **facts)
    return record, passed(said, **facts)


def missing(record: Record, must: Collection[str] = ()) -> Seen:
    """Whether every input that is not there or not whole is listed, and those that are known to be missing."""
    listed = {one.input: one.said for one in record.report.missing}
    wanted = {*must, *_gaps(record)}
    facts = {"listed": listed, "not_listed": sorted(wanted - set(listed))}
    if not wanted <= set(listed):
        return failed(f"not listed: {', '.join(sorted(wanted - set(listed)))}", **facts)
    if not listed:
        return passed("every input is there and whole, so that none is listed", **facts)
    return passed(f"{', '.join(sorted(listed))}: {len(wanted)} have to be listed, and are", **facts)


def _gaps(record: Record) -> Iterator[str]:
    """The inputs that must be listed, told by the other parts of the record."""
    reports = record.read("reports.json", list[CollectorReport])
    for report in reports:
        if not seen_whole(msgspec.to_builtins(report)):
            yield f"source:{report.source}"
    covered = {report.source.value for report in reports}
    if not record.verdicts:
        yield "verdict"
        return
    body = json.loads(record.body(record.verdicts[-1]))
    for cell in body.get("coverage", []):
        if cell["source"] not in covered and not seen_whole(cell):
            yield f"source:{cell['source']}"
    for verdict in record.verdicts:
        if not record.has(f"rulesets/{verdict.ruleset}.jsonl"):
            yield f"ruleset:{verdict.ruleset}"


def in_time(record: Record, limits: Mapping[str, float]) -> Seen:
    """Whether each collector's report came within its limit, in seconds by the collector's name."""
    told = [row for row in record.rows("collector_reports.jsonl", _Told) if row.collector in limits]
    took = {row.collector: row.body.seconds for row in told}
    facts = {
        "margin": MARGIN,
        "collectors": {
            name: {"seconds": round(seconds, 3) if seconds is not None else None, "limit": limits[name]}
            for name, seconds in took.items()
        },
    }
    if not told:
        return not_checked("of none of its reports a limit is known: its evidence was sent by tools", **facts)
    silent = sorted(name for name, seconds in took.items() if seconds is None)
    late = sorted(name for name, seconds in took.items() if seconds is not None and seconds > limits[name] + MARGIN)
    if late:
        words = (f"{name} took {took[name]:.1f} s of {limits[name]:g} s" for name in late)
        return failed("; ".join(words), **facts)
    if silent:
        return not_checked(f"not told how long it took: {', '.join(silent)}", **facts)
    words = (f"{name} {took[name] or 0:.1f} s of {limits[name]:g} s" for name in sorted(took))
    return passed(f"taken of what is allowed: {', '.join(words)}", **facts)


def secrets(body: BinaryIO, planted: Sequence[Planted]) -> Seen:
    """Whether none of the planted secrets is anywhere in the file, in any spelling; vacuous is not passed."""
    body.seek(0)
    there: dict[str, list[str]] = {}
    taken = files = 0
    with zipfile.ZipFile(body) as archive:
        for entry in archive.infolist():
            files += 1
            for kind in found(blocks(archive, entry.filename), planted):
                there.setdefault(kind, []).append(entry.filename.partition("/")[2])
            if "/data/observations/" in entry.filename:
                taken += sum(marks(line.decode(errors="replace")) for line in lines(archive, entry.filename))
    kinds = sorted({one.kind for one in planted})
    facts = {"planted": kinds, "marks": taken, "files": files, "found": {kind: there[kind] for kind in sorted(there)}}
    if there:
        places = (f"{kind} in {', '.join(names[:3])}" for kind, names in sorted(there.items()))
        return failed(f"found: {'; '.join(places)}", **facts)
    if taken < max(len(planted), 1):
        return not_checked(
            f"only {taken} marks of secrets that were taken out are in it, of {len(planted)} that were planted: lines"
            " with secrets did not come as far as that",
            **facts,
        )
    return passed(
        f"none of {len(planted)} planted secrets is in {files} files; {taken} marks stand in their place", **facts
    )


def shapes(body: BinaryIO, redactor: Redactor) -> Seen:
    """The same for an attempt that nobody planted anything in: whether anything has the shape of a secret."""
    body.seek(0)
    there: list[str] = []
    texts = 0
    with zipfile.ZipFile(body) as archive:
        for entry in archive.infolist():
            name = entry.filename.partition("/")[2]
            if not name.startswith("data/") or name.startswith(_NOT_EVIDENCE):
                continue
            for number, line in enumerate(lines(archive, entry.filename), 1):
                for text in _texts(json.loads(line)):
                    texts += 1
                    if redactor.redact(text) != text:
                        there.append(f"{name}:{number}")
    facts = {"texts": texts, "places": there[:NAMED], "found": len(there)}
    if there:
        return failed(f"{len(there)} texts have the shape of a secret, the first at {there[0]}", **facts)
    return passed(f"nothing in {texts:,} texts of it has the shape of a secret; none was planted", **facts)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def concluded_again(record: Record) -> Seen:
    """Whether the record's own rules conclude the same verdict from the record's evidence, byte for byte."""
    try:
        done = again.conclude(record)
    except BadRecord as error:
        return failed(str(error)) if record.verdicts else not_checked(str(error))
    facts = {
        "verdict": done.told.number,
        "sha256": done.told.sha256,
        "ruleset": done.told.ruleset,
        "bytes": len(done.raw),
    }
    if not done.same:
        why = "; ".join(done.why) or "nothing in the record says why"
        return failed(f"verdict {done.told.number} is another one when it is concluded again: {why}", **facts)
    return passed(f"verdict {done.told.number}, {len(done.raw):,} bytes, SHA-256 {done.told.sha256}", **facts)


def containing(body: BinaryIO, text: str) -> list[str]:
    """The files of a record that have a text in them."""
    body.seek(0)
    wanted = [Planted("marker", text, text)]
    with zipfile.ZipFile(body) as archive:
        names = [entry.filename for entry in archive.infolist()]
        return [name.partition("/")[2] for name in names if any(found(blocks(archive, name), wanted))]
