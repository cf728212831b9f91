"""A verdict's canonical JSON as rows: the body, and the columns and rows that filters and counts need."""

import hashlib
from collections.abc import Iterator
from typing import Any

from rules.ruleset import Ruleset
from verdicts.choices import FindingStatus
from verdicts.models import Attempt, Finding, NamedPort, UnrecognisedLine, Verdict
from verdicts.named_rows import ruleset_version, set_nodes
from verdicts.storable import storable_json

#: The lists of a verdict that hold findings, with the status that being in one means.
LISTS = (
    ("causes", FindingStatus.CAUSE),
    ("candidates", FindingStatus.CANDIDATE),
    ("demoted", FindingStatus.DEMOTED),
    ("interesting", FindingStatus.INTERESTING),
)


#: What the columns hold. A log line can name a node in more characters than any node has; the body keeps the whole.
MAX_TEXT, MAX_WHOLE, MAX_COUNT = 255, 2**31 - 1, 2**63 - 1


def write_verdict(attempt: Attempt, raw: bytes, *, number: int, ruleset: Ruleset, generation: int) -> Verdict:
    """Write a verdict as the attempt's current one. The caller holds the attempt's lock and has superseded the last."""
    body = storable_json(raw)
    verdict = Verdict.objects.create(
        attempt=attempt,
        number=number,
        mode=body["mode"],
        state=body["terminal_state"],
        domain=body["attributed_domain"],
        strength=body.get("strength") or "",
        headline=body["headline"],
        ended_at=attempt.ended_at,
        happened_at=attempt.ended_at or attempt.started_at or attempt.created_at,
        generation=generation,
        body=body,
        body_json=raw.decode(),
        body_sha256=hashlib.sha256(raw).hexdigest(),
        coverage=[{name: said for name, said in report.items() if name != "files"} for report in body["coverage"]],
        ruleset=ruleset_version(ruleset),
        engine=str(body.get("engine", "")),
    )
    Finding.objects.bulk_create(list(_findings(verdict, verdict.body)))
    NamedPort.objects.bulk_create(list(_ports(verdict, verdict.body)))
    UnrecognisedLine.objects.bulk_create(list(_unrecognised(verdict, verdict.body)))
    names = {_cut(node["name"]) for node in verdict.body.get("affected_nodes", []) if node.get("name")}
    set_nodes(verdict, attempt.cluster, names)
    return verdict


def _findings(verdict: Verdict, body: dict[str, Any]) -> Iterator[Finding]:
    for field, status in LISTS:
        for finding in body.get(field, []):
            locus = finding.get("locus") or {}
            nodes, ranks = finding.get("nodes") or [], finding.get("ranks") or []
            yield Finding(
                verdict=verdict,
                finding=finding["id"],
                status=status.value,
                rule=_cut(finding["rule"]),
                symptom=_cut(finding["symptom"]),
                domain=finding["domain"] or "",
                role=finding["role"],
                strength=finding.get("strength") or "",
                title=finding.get("title", ""),
                node=_cut(locus.get("node") or (nodes[0] if len(nodes) == 1 else "")),
                gpu=_cut(locus.get("gpu", "")),
                rank=ranks[0] if len(ranks) == 1 and ranks[0] <= MAX_WHOLE else None,
                count=min(finding.get("count", 1), MAX_COUNT),
                explained_by=_cut((finding.get("explained_by") or {}).get("rule") or ""),
            )


def _ports(verdict: Verdict, body: dict[str, Any]) -> Iterator[NamedPort]:
    """The switches and ports that findings name. A port that is a number is one of a device, which is named with it."""
    for field, status in LISTS:
        for finding in body.get(field, []):
            locus = finding.get("locus") or {}
            switch, node, port = locus.get("switch", ""), locus.get("node", ""), locus.get("port", "")
            if not switch and not (node and port):
                continue
            device = locus.get("device", "")
            yield NamedPort(
                verdict=verdict,
                finding=finding["id"],
                status=status.value,
                symptom=_cut(finding["symptom"]),
                of="switch" if switch else "node",
                owner=_cut(switch or node),
                port=_cut(f"{device} port {port}" if device and port.isdigit() else port),
            )


def _cut(text: str) -> str:
    """The text as a column holds it."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _unrecognised(verdict: Verdict, body: dict[str, Any]) -> Iterator[UnrecognisedLine]:
    for item in body.get("unrecognised", []):
        example = item.get("example") or {}
        yield UnrecognisedLine(
            verdict=verdict,
            digest=hashlib.sha256(item["template"].encode()).hexdigest(),
            template=item["template"],
            source=item["source"],
            count=min(item.get("count", 1), MAX_COUNT),
            near_end=item.get("near_end", False),
            node=example.get("node") or "",
            ref=example.get("ref") or "",
            example=example.get("text") or "",
        )
