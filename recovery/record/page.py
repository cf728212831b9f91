"""The page of a record: what the console's page of the verdict shows, in one file that needs nothing else."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.template.loader import render_to_string

from recovery.ledger import entries as ledger
from recovery.ledger.words import ENTRIES
from recovery.models import LedgerEntry
from verdicts.models import Attempt, Verdict
from verdicts.verdict_page import compare, presentation
from verdicts.verdict_page.short import in_short

#: Rows of a kind on the page; the files of the record have all.
MOST_ROWS = 500
#: Versions that are compared with each other.
MOST_VERSIONS = 12


def page(shown: Mapping[str, Any], info: Mapping[str, str]) -> bytes:
    """The page as bytes. `shown` is what the payload was written from."""
    verdict: Verdict | None = shown["verdict"]
    attempt: Attempt = shown["attempt"]
    body = verdict.body if verdict else {}
    context = {
        **shown,
        "dated": info["Bagging-Date"],
        "expires": info["Inquest-Expires"],
        "hold": info.get("Inquest-Hold", ""),
        "verdict": verdict,
        "body": body,
        "started": _utc(attempt.started_at),
        "ended": _utc(attempt.ended_at),
        "made": _utc(verdict.created_at) if verdict else "",
        "short": in_short(body) if verdict else None,
        "coverage": presentation.coverage(body.get("coverage")),
        "blind_spots": presentation.blind_spots(body),
        "lines": presentation.evidence_lines(body),
        "history": _history(attempt),
        "entries": [_entry(entry) for entry in shown["ledger"]],
        "most": MOST_ROWS,
    }
    return render_to_string("record/page.html", context).encode()


def _history(attempt: Attempt) -> list[dict[str, Any]]:
    """The newest versions with what changed from one to the next."""
    newest = list(attempt.verdicts.order_by("-number").defer("body_json")[: MOST_VERSIONS + 1])
    return [
        {"verdict": version.verdict, "change": version.change, "made": _utc(version.verdict.created_at)}
        for version in (compare.versions(newest)[:MOST_VERSIONS] if newest else ())
    ]


def _entry(entry: LedgerEntry) -> dict[str, Any]:
    link = getattr(entry, "link", None)
    return {
        "number": link.number if link else None,
        "hash": link.hash if link else "",
        "what": ENTRIES.get(entry.kind, entry.kind),
        "at": _utc(entry.at),
        "actor": entry.actor,
        "roles": entry.body.get("roles", []),
        # As pairs: a template that is given a dict and asks for its items gets the fact of that name.
        "facts": list(entry.body.get("facts", {}).items()),
    }


def _utc(at: datetime | None) -> str:
    return ledger.spelled(at)[:19].replace("T", " ") + " UTC" if at else ""
