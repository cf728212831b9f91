"""Secrets are planted wherever text comes in, and then looked for wherever text is kept or shown.

A way in is a function that plants every secret and is listed in WAYS. The places looked at find themselves: every
column of every table, every page and API answer that an address of the site can be made for, all that was logged.
"""

import html
import io
import json
import logging
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from rules.words import ReportStatus, Source
from tests.planted import PLANTED
from tests.verdicts.builders import a_report, an_attempt, an_observation
from verdicts import conclude, models, record, tasks
from verdicts.choices import Mode
from verdicts.collecting import collected, discover, gather
from verdicts.collectors.ask import Ask, Budget, SourceError, Unreachable
from verdicts.collectors.config import Clusters, ClusterSettings
from verdicts.collectors.files import Files
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import Probe, SourceSettings
from verdicts.sources import check as source_check
from verdicts.sources import find as source_find
from verdicts.sources import standing as sources
from verdicts.upload.ingest import ingest_path

pytestmark = pytest.mark.django_db

LINES = [planted.line for planted in PLANTED]
#: A secret that was cut in two is one as well: the whole, and of a long one its beginning and its end.
PARTS = [
    (planted.name, part)
    for planted in PLANTED
    for part in {planted.secret, *([planted.secret[:20], planted.secret[-20:]] if len(planted.secret) > 30 else [])}
]


@dataclass
class Site:
    """What a way in works with: a client that may do everything, a folder, and the answers it was given."""

    client: Client
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    answers: dict[str, str] = field(default_factory=dict)

    def post(self, address: str, body: Any) -> Any:
        answer = self.client.post(f"/api/v1/{address}", json.dumps(body), content_type="application/json")
        assert answer.status_code < 300, answer.content
        self.answers[f"POST {address} {len(self.answers)}"] = answer.content.decode()
        return answer.json()


def an_incident(folder: Path) -> Path:
    """An incident folder with every secret in a log of the application, in one of a node, and in attempt.json."""
    for name in ("applog", "syslog"):
        (folder / name).mkdir(parents=True)
    errors = [f"ERROR: {line}" for line in LINES]
    xids = [f"NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus. {line}" for line in LINES]
    (folder / "applog" / "train.out").write_text("\n".join([*LINES, *errors, "RuntimeError: CUDA error: " + LINES[0]]))
    (folder / "syslog" / "gpu-01.log").write_text("\n".join(xids))
    (folder / "attempt.json").write_text(json.dumps({"job_id": "in-folder", "nodes": ["gpu-01"], "reason": LINES[1]}))
    return folder


def by_ingest(site: Site) -> None:
    stored = ingest_path(an_incident(site.folder / "ingested"))
    assert conclude.attribute_now(stored.request) is not None


def by_upload(site: Site) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(an_incident(site.folder / "uploaded"), arcname="uploaded")
    file = SimpleUploadedFile("uploaded.tar.gz", packed.getvalue())
    answer = site.client.post("/api/v1/incidents", {"files": file, "job": "uploaded"})
    assert answer.status_code == 202, answer.content
    site.answers["POST incidents"] = answer.content.decode()
    assert conclude.attribute_now(answer.json()["attribution"]) is not None


def by_api(site: Site) -> None:
    attempt = site.post("attempts", {"job_id": "by-api", "state": "FAILED"})["id"]
    records = [
        {
            "source": "applog",
            "body": f"RuntimeError: CUDA error: out of memory {planted.line}",
            "ref": f"{planted.line[:900]}:{number}" if planted.kind != "key line" else "",
            "attributes": {"frame": planted.line, "within": 3},
        }
        for number, planted in enumerate(PLANTED)
    ]
    named = {
        "source": "applog",
        "body": "ERROR: x",
        "attributes": {"api_key": PLANTED[0].secret, "password": PLANTED[1].secret},
    }
    site.post(f"attempts/{attempt}/observations", {"observations": [*records, named], "key": LINES[2][:255]})
    site.post(f"attempts/{attempt}/observations", {"observations": records[:1], "key": LINES[-1]})
    reports = [
        {"source": "syslog", "status": "error", "collector": f"c{number}", "reason": line, "files": [line]}
        for number, line in enumerate(LINES)
    ]
    site.post(f"attempts/{attempt}/reports", {"reports": reports})
    site.post(f"attempts/{attempt}/attributions", {"mode": "fast", "wait": 0.2})


def by_fields_of_attempts(site: Site) -> None:
    fields = ("reason", "image", "workload", "account", "partition", "user", "state", "exit_code")
    for number in range(0, len(LINES), len(fields)):
        said = dict(zip(fields, LINES[number : number + len(fields)], strict=False))
        elements = {"image": {LINES[number]: ["gpu-01"]}}
        body = {"job_id": f"fields-{number}", "cluster": "beta", "topology": elements, **said}
        body["collectors"] = [{"source": "syslog", "status": "error", "reason": LINES[number]}]
        attempt = site.post("attempts", body)["id"]
        assert conclude.attribute_now(conclude.request_attribution(attempt, Mode.SLOW).pk) is not None


def by_what_collectors_obtained(site: Site) -> None:
    attempt, _ = record.record_attempt(an_attempt("collected"))
    observations = [an_observation(number, body=f"ERROR: {line}") for number, line in enumerate(LINES)]
    for number, line in enumerate(LINES):
        report = a_report(Source.SYSLOG, status=ReportStatus.PARTIAL, reason=line, collector=f"c{number}")
        collected.store_collected(attempt, [], report)
    collected.store_collected(attempt, observations, a_report(kept=len(LINES)))
    assert conclude.attribute_now(conclude.request_attribution(attempt.pk, Mode.SLOW).pk) is not None


def by_files_of_a_cluster(site: Site) -> None:
    """The whole way: an attempt that discovery found over, its log read by a collector, and a check of the source."""
    (site.folder / "train.out").write_text("\n".join(f"ERROR: {line}" for line in LINES))
    source = Files(name="train", source=Source.APPLOG, root=str(site.folder), paths=["train.out"])
    cluster = ClusterSettings(name="gamma", settle=0, source=[source, Says(name="says", source=Source.SYSLOG)])  # type: ignore[list-item]
    for module in (gather, discover, source_check, source_find):
        site.monkeypatch.setattr(module, "current_clusters", lambda: Clusters(cluster=[cluster]))
    sources.forget()
    assert discover.store(cluster, [an_attempt("found", cluster="gamma", reason=LINES[3])]) == []
    gather.work()
    source_check.check()
    conclude.work()
    sources.forget()
    attempt = models.Attempt.objects.get(job_id="found")
    assert attempt.observations.exists() and attempt.verdicts.exists()


class Says(SourceSettings, tag="says", frozen=True, kw_only=True):
    """A source whose every answer has secrets."""

    def collect(self, ask: Ask, out: Sink) -> None:
        out.note(LINES[4])
        raise Unreachable("\n".join(LINES))

    def probe(self, nodes: Any, budget: Budget) -> Probe:
        raise SourceError("\n".join(LINES))


def by_a_worker_that_fails(site: Site) -> None:
    attempt, _ = record.record_attempt(an_attempt("broken"))
    request = conclude.request_attribution(attempt.pk, Mode.SLOW)
    for line in ("\n".join(LINES), *LINES[:8]):
        models.AttributionRequest.objects.filter(pk=request.pk).update(tries=0, due_at="2026-01-01T00:00:00Z")

        def breaks(*_: object, said: str = line, **__: object) -> None:
            raise ValueError(said)

        with site.monkeypatch.context() as patched:
            patched.setattr(conclude, "attribute", breaks)
            tasks.attribute.apply()
    request.refresh_from_db()
    assert "ValueError" in request.error and "[redacted: " in request.error


WAYS = [
    by_ingest,
    by_upload,
    by_api,
    by_fields_of_attempts,
    by_what_collectors_obtained,
    by_files_of_a_cluster,
    by_a_worker_that_fails,
]


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What the site's own handler would have written, from INFO on."""
    root = logging.getLogger()
    ours = next(handler for handler in root.handlers if handler.name == "stderr")
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(ours.formatter)
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield out
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


@pytest.fixture
def site(client: Client, tmp_path: Path, sent: list[str], monkeypatch: pytest.MonkeyPatch) -> Site:
    client.force_login(get_user_model().objects.create_superuser("root", password="a long pass phrase"))
    client.raise_request_exception = False
    return Site(client, tmp_path, monkeypatch)


def leaks(texts: dict[str, str]) -> list[str]:
    return [f"{name} in {where}: {part}" for where, text in texts.items() for name, part in PARTS if part in text]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_planted_secret_is_kept(way: Callable[[Site], None], site: Site, logged: io.StringIO) -> None:
    logging.getLogger("verdicts").error("a field and %s", LINES[0], extra={"password": PLANTED[1].secret, "all": LINES})
    way(site)
    kept = dict(tables())
    assert sum(text.count("[redacted: ") for text in kept.values()) > 0
    assert "[redacted: " in logged.getvalue()
    assert leaks({**kept, **site.answers, "log": logged.getvalue()}) == []


def test_no_planted_secret_is_shown(site: Site, logged: io.StringIO) -> None:
    """All ways in first: most pages are the same for each."""
    ids: list[str] = []
    known: set[str] = set()
    for way in WAYS:
        way(site)
        for model in (models.Attempt, models.Verdict, models.AttributionRequest):
            new = [str(pk) for pk in model.objects.values_list("pk", flat=True) if str(pk) not in known]
            known.update(new)
            ids += new[:2]
    shown = dict(answers(site.client, ids))
    assert len(shown) > 40
    assert any("[redacted: " in text for text in shown.values())
    assert leaks({**shown, **site.answers, "log": logged.getvalue()}) == []


def tables() -> Iterator[tuple[str, str]]:
    """Every table with the text of all its rows, whatever its columns are."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            name = connection.ops.quote_name(table)
            cursor.execute(f"SELECT row_to_json(t)::text FROM {name} t")  # noqa: S608
            yield f"table {table}", "\n".join(row for (row,) in cursor.fetchall())


def answers(client: Client, ids: list[str]) -> Iterator[tuple[str, str]]:
    """What every address of the site answers, for each object that could stand in it."""
    for address in sorted(addresses(ids)):
        response = client.get(address)
        raw = b"".join(response) if response.streaming else response.content  # type: ignore[arg-type]
        text = raw.decode("utf-8", "replace")
        assert response.status_code != 500, f"{address}: {text[-2000:]}"
        if response.status_code < 300:
            # A secret cut by markup is one as well.
            yield address, text + html.unescape(re.sub(r"<[^>]*>", "", text))


def addresses(ids: list[str]) -> set[str]:
    digests = list(models.UnrecognisedLine.objects.order_by("digest").values_list("digest", flat=True).distinct()[:5])
    found = set()
    for pattern in patterns(get_resolver().url_patterns, ""):
        if any(part in pattern for part in ("admin/", "accounts/", "static")):
            continue
        values = ["gpu.off-the-bus"]
        if "<uuid:" in pattern:
            values = ids
        elif "digest" in pattern:
            values = digests
        elif "export" in pattern:
            values = ["csv", "json", "jsonl", "ndjson"]
        found |= {re.sub(r"<[^>]*>", value, f"/{pattern}") for value in values}
    found |= {
        f"{address}?limit=1000" for address in found if address.endswith(("/observations", "/reports", "/verdicts"))
    }
    return found | {"/verdicts/?text=ERROR", "/rules/unrecognised/?text=ERROR"}


def patterns(found: list[URLPattern | URLResolver], before: str) -> Iterator[str]:
    for one in found:
        address = before + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from patterns(one.url_patterns, address)
        else:
            yield address.replace("^", "").replace("$", "")
