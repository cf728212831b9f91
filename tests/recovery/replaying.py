"""Builders for the tests of replays: a few small rules, and attempts that were concluded with them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from rules.observation import Observation
from rules.ruleset import Ruleset, load_files
from rules.words import Source
from tests.verdicts.builders import a_report, an_attempt
from verdicts import conclude
from verdicts.choices import Mode
from verdicts.models import Attempt
from verdicts.record import add_observations, record_attempt, record_reports

RULE = """\
id = "test.{name}"
title = "{title}"
domain = "{domain}"
symptom = "test_{name}"
role = "{role}"
meaning = "a test"
note = "a test"
maturity = "stable"
[match]
sources = ["syslog"]
any = ['{pattern}']
[locus]
node = "source.node"
"""
#: What a line of each kind of attempt says, and what the rules make of it.
DISK, FAN, LINK = "disk sda gave up", "fan 3 stands still", "link 7 is down"


def a_rule(name: str, pattern: str, *, domain: str = "host_hardware", role: str = "cause", title: str = "") -> bytes:
    """A rule as a file."""
    title = title or f"The {name}"
    return RULE.format(name=name, pattern=pattern, domain=domain, role=role, title=title).encode()


def rules(**changed: bytes | None) -> Ruleset:
    """Three rules, some of them changed or, with None, left out."""
    files: dict[str, bytes | None] = {
        "disk": a_rule("disk", "disk [a-z]+ gave up", domain="storage"),
        "fan": a_rule("fan", "fan [0-9]+ stands still"),
        "link": a_rule("link", "link [0-9]+ is down", domain="network_fabric"),
    }
    chosen = {name: raw for name, raw in (files | changed).items() if raw is not None}
    return load_files({f"test/{name}.toml": raw for name, raw in chosen.items()})


def in_force(monkeypatch: pytest.MonkeyPatch, ruleset: Ruleset) -> Ruleset:
    """Conclude with these rules from now on."""
    monkeypatch.setattr(conclude, "current_ruleset", lambda: ruleset)
    return ruleset


def concluded(job_id: str, line: str, *, node: str = "gpu-01", days_ago: int = 1, **more: Any) -> Attempt:
    """An attempt that ended lately, with one line in its node's log and its verdict."""
    end = datetime.now(UTC).replace(microsecond=0) - timedelta(days=days_ago)
    times = {
        "submit_time": (end - timedelta(hours=3)).isoformat(),
        "start": (end - timedelta(hours=2)).isoformat(),
        "end": end.isoformat(),
    }
    attempt, _ = record_attempt(an_attempt(job_id, **(times | more)))
    found = Observation(
        source=Source.SYSLOG,
        body=f"kernel: {line}",
        ref=f"syslog/{node}.log:1",
        node=node,
        timestamp=(end - timedelta(minutes=5)).isoformat(),
        collector="files",
    )
    add_observations(attempt.pk, [found])
    record_reports(attempt.pk, [a_report(Source.SYSLOG), a_report(Source.APPLOG, kept=0, delivered=0, read=0)])
    verdict = conclude.attribute_now(conclude.request_attribution(attempt.pk, Mode.SLOW).pk)
    assert verdict is not None
    return attempt


def many(numbers: Iterable[int]) -> dict[str, list[Attempt]]:
    """Attempts of three kinds in turn, by what their line says."""
    found: dict[str, list[Attempt]] = {DISK: [], FAN: [], LINK: []}
    for number in numbers:
        line = (DISK, FAN, LINK)[number % 3]
        found[line].append(concluded(str(1000 + number), line))
    return found


def plain(value: Any) -> Any:
    """Plain data."""
    return msgspec.to_builtins(value)
