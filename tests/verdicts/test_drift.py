"""Parser drift over stored attempts: what counts as a sign, and how it is told."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog
from click.testing import CliRunner
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from attribution_site.cli import main
from rules.ruleset import Ruleset, load_files
from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import DIGEST, a_verdict, an_attempt, body, finding
from tests.verdicts.test_pages import text_of
from tests.verdicts.test_unrecognised import FLUX, digest, item
from verdicts import conclude, tasks
from verdicts.models import DriftCheck, Verdict
from verdicts.rulebook import drift, drift_cli

pytestmark = pytest.mark.django_db

NEW_RULES = "c0ffee00" * 8
Clients = Callable[..., APIClient]


def rule(rule_id: str, pattern: str, **more: str) -> bytes:
    """A small rule file."""
    extra = "\n".join(f"{key} = {value}" for key, value in more.items())
    return f"""id = "{rule_id}"
title = "{rule_id}"
symptom = "{rule_id.replace(".", "_").replace("-", "_")}"
role = "state"
meaning = "For tests."
{extra}
[match]
sources = ["syslog"]
any = ['{pattern}']
[[test]]
name = "it"
lines = ['{pattern}']
expect = {{ matches = 1 }}
""".encode()


@pytest.fixture(scope="module")
def few_rules() -> Ruleset:
    """Four rules: two of one family, one of another, one that says how often it comes."""
    return load_files(
        {
            "flux/drained.toml": rule("flux.drained", r"flux capacitor drained by \d+"),
            "flux/hot.toml": rule("flux.hot", "flux capacitor too hot"),
            "warp/core.toml": rule("warp.core", "warp core unstable"),
            "warp/tick.toml": rule("warp.tick", "warp tick", healthy_per_node_day="2.0", seen='{ warp = "1 to 9" }'),
        }
    )


@pytest.fixture(autouse=True)
def in_force(monkeypatch: pytest.MonkeyPatch, few_rules: Ruleset) -> None:
    """The rules above are those in force."""
    monkeypatch.setattr(conclude, "current_ruleset", lambda: few_rules)


def stored(days_ago: float, *rules: str, ruleset: str = DIGEST, hours: float = 1, **more: Any) -> Verdict:
    """A verdict of an attempt that ended some days ago, with a finding of each rule, made with some ruleset."""
    end = timezone.now() - timedelta(days=days_ago)
    number = Verdict.objects.count()
    given = {"nodes": ["n1"], **more.pop("attempt", {})}
    attempt = an_attempt(str(number), start=(end - timedelta(hours=hours)).isoformat(), end=end.isoformat(), **given)
    count = more.pop("count", 1)
    found = [finding(f"f{i}", name, name, role="state", count=count) for i, name in enumerate(rules)]
    used = {"digest": ruleset, "rules": 4, "layers": ["shipped"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.verdicts.page_bodies.RULESET.digest", ruleset)
        return a_verdict(attempt, body(interesting=found, ruleset=used, **more))


def kinds(days: int = 7, **more: Any) -> list[tuple[str, str]]:
    """The signs found: kind, and rule or text."""
    return [(sign.kind, sign.rule or sign.text) for sign in drift.report(days, **more).signs]


# --- Rules gone silent --------------------------------------------------------------------------


def test_a_rule_gone_silent_while_its_family_goes_on_is_a_sign() -> None:
    for number in range(6):
        stored(8 + number, "flux.drained", "flux.hot")
        stored(1 + number, "flux.hot")
    assert kinds() == [("silent", "flux.drained")]


def test_a_whole_family_gone_silent_is_none_the_trouble_is_over() -> None:
    for number in range(6):
        stored(8 + number, "flux.drained", "flux.hot")
        stored(1 + number, "warp.core")
    assert kinds() == []


def test_silence_that_chance_explains_is_none() -> None:
    for number in range(4):
        stored(8 + number, "flux.drained", "flux.hot", count=50)
        stored(1 + number, "flux.hot")
    assert kinds() == []


def test_fewer_attempts_than_before_make_silence_less_telling() -> None:
    for number in range(6):
        stored(8 + number, "flux.drained", "flux.hot")
    stored(1, "flux.hot")
    assert kinds() == []


def test_superseded_verdicts_are_not_counted() -> None:
    for number in range(6):
        verdict = stored(8 + number, "flux.drained", "flux.hot")
        a_verdict(verdict.attempt, body(interesting=[finding("f1", "flux.hot", "hot")]), number=2)
        stored(1 + number, "flux.hot")
    assert kinds() == []


# --- Unknown errors and near-misses -------------------------------------------------------------


def test_a_new_template_that_came_with_a_new_image_is_a_sign() -> None:
    stored(9, attempt={"image": "train:1"})
    stored(2, attempt={"image": "train:1"})
    stored(1, attempt={"image": "train:2"}, unrecognised=[item()])
    (sign,) = drift.report().signs
    assert (sign.kind, sign.text, sign.template) == ("unknown", FLUX, digest(FLUX))
    assert sign.since == ["image train:2"]
    assert sign.example == "fluxd[71]: fatal: capacitor 3 drained"


def test_a_new_template_that_came_with_a_new_ruleset_is_a_sign() -> None:
    stored(9)
    stored(1, ruleset=NEW_RULES, unrecognised=[item()])
    found = drift.report()
    assert [sign.since for sign in found.signs] == [[f"rules {NEW_RULES[:12]}"]]
    assert found.changes == [f"Rules {NEW_RULES[:12]}: new in the later time."]


def test_a_new_template_without_a_new_version_is_counted_and_is_no_sign() -> None:
    stored(9, attempt={"image": "train:1"})
    stored(2, attempt={"image": "train:2"})
    stored(1, attempt={"image": "train:1"}, unrecognised=[item()])
    found = drift.report()
    assert found.signs == []
    assert found.new_templates == 1


def test_a_template_seen_long_ago_is_not_new() -> None:
    stored(90, unrecognised=[item()])
    stored(9)
    stored(1, ruleset=NEW_RULES, unrecognised=[item()])
    assert kinds() == []


def test_without_anything_before_nothing_is_new() -> None:
    stored(1, unrecognised=[item()])
    assert kinds() == []


def test_lines_with_a_rule_s_fixed_text_that_it_does_not_match_are_near_misses() -> None:
    near = item("warp core very <text> unstable", "the warp core unstabl", count=1)
    stored(9)
    stored(1, unrecognised=[near])
    assert kinds() == []
    template = "error: flux capacitor drained by seven"
    changed = item(template, "error: flux capacitor drained by seven", count=3)
    stored(1, unrecognised=[changed])
    (sign,) = drift.report().signs
    assert (sign.kind, sign.rule, sign.after) == ("near_miss", "flux.drained", 3)
    assert sign.template == digest(template)


# --- Rates --------------------------------------------------------------------------------------


def test_a_rule_that_matches_far_more_often_than_it_says_is_a_sign() -> None:
    stored(9, "warp.tick", hours=24, count=2)
    stored(1, "warp.tick", hours=24, count=9)
    assert kinds() == []
    stored(2, "warp.tick", hours=24, count=40)
    (sign,) = drift.report().signs
    assert (sign.kind, sign.rule, sign.after) == ("too_often", "warp.tick", 49)
    assert sign.text == "expected about 4.0 in 2.0 node days, seen 49"
    assert sign.seen == {"warp": "1 to 9"}


def test_a_rule_that_a_healthy_fleet_shows_and_this_one_does_not_is_a_sign() -> None:
    stored(1, hours=24, attempt={"nodes": ["n[1-4]"]})
    assert kinds() == [("healthy_missing", "warp.tick")]


# --- How it is told -----------------------------------------------------------------------------


def gone_silent() -> None:
    """A store in which one rule has gone silent."""
    for number in range(6):
        stored(8 + number, "flux.drained", "flux.hot")
        stored(1 + number, "flux.hot")


def test_the_page_and_the_api_say_the_same(client: Client, client_of: Clients) -> None:
    gone_silent()
    client.force_login(a_user("vera", "viewer"))
    said = text_of(client.get("/rules/drift/"))
    for words in (
        "1 sign of drift",
        "Rules gone silent",
        "flux.drained",
        "6 lines before, 0 after",
        "no daily look yet",
    ):
        assert words in said, words
    answer = client_of("viewer").get("/api/v1/rules/drift").json()
    assert [(sign["kind"], sign["rule"]) for sign in answer["signs"]] == [("silent", "flux.drained")]
    assert answer["before"]["attempts"] == answer["after"]["attempts"] == 6


def test_the_page_takes_other_times_and_refuses_what_it_cannot_read(client: Client) -> None:
    gone_silent()
    client.force_login(a_user("vera", "viewer"))
    ago = (timezone.now() - timedelta(days=20)).strftime("%Y-%m-%dT%H:%M")
    assert "Nothing to compare" in text_of(client.get("/rules/drift/", {"until": ago}))
    later = (timezone.now() - timedelta(days=2)).strftime("%Y-%m-%dT%H:%M")
    assert "No sign of drift" in text_of(client.get("/rules/drift/", {"days": "1", "until": later}))
    assert "Nothing was compared" in text_of(client.get("/rules/drift/", {"days": "365"}))
    assert "Nothing was compared" in text_of(client.get("/rules/drift/", {"until": "soon"}))
    assert "Nothing was compared" in text_of(client.get("/rules/drift/", {"until": "0001-01-01T00:00"}))


def test_an_empty_store_has_nothing_to_compare(client: Client) -> None:
    client.force_login(a_user("vera", "viewer"))
    assert "No attempt has been sent yet" in text_of(client.get("/rules/drift/"))


def test_the_daily_look_is_kept_and_logged(client: Client) -> None:
    gone_silent()
    with structlog.testing.capture_logs() as logged:
        tasks.look_for_drift()
    (line,) = [entry for entry in logged if entry["event"] == "rules.drift"]
    assert line["log_level"] == "warning"
    assert line["counts"] == {"silent": 1}
    assert line["silent"] == ["flux.drained"]
    kept = DriftCheck.objects.get()
    assert (kept.days, kept.attempts_after, kept.signs[0]["rule"]) == (7, 6, "flux.drained")
    client.force_login(a_user("vera", "viewer"))
    assert "1 sign ·" in text_of(client.get("/rules/drift/"))


def test_a_look_that_finds_nothing_warns_of_nothing() -> None:
    with structlog.testing.capture_logs() as logged:
        tasks.look_for_drift()
    assert [entry for entry in logged if entry["log_level"] == "warning"] == []
    assert DriftCheck.objects.get().signs == []


def command(*arguments: str) -> Any:
    """`inquest drift ARGUMENTS`."""
    return CliRunner().invoke(main, ["drift", *arguments])


def test_the_command_s_exit_status_tells_whether_something_drifted() -> None:
    assert command().exit_code == 0
    gone_silent()
    done = command("--days", "7")
    assert done.exit_code == 1
    assert "Rules gone silent (1)" in done.output
    assert "flux.drained" in done.output
    told = json.loads(command("--json").output)
    assert told["signs"][0]["rule"] == "flux.drained"
    datetime.fromisoformat(told["after"]["to"])


def test_the_command_takes_the_end_of_the_time_and_refuses_nonsense() -> None:
    gone_silent()
    until = (timezone.now() - timedelta(days=20)).isoformat()
    assert "Nothing to compare" in command("--until", until).output
    for nonsense in ("soon", "0001-01-01", "9999-12-31T23:59:59-12:00"):
        assert command("--until", nonsense).exit_code == 2
    assert command("--days", "0").exit_code == 2


def test_the_command_says_when_the_database_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*args: Any, **more: Any) -> None:
        raise drift_cli.DatabaseError("no route")

    monkeypatch.setattr(drift_cli, "report", down)
    done = command()
    assert done.exit_code == 3
    assert "the database cannot be used" in done.output


def test_a_report_costs_the_same_however_much_is_stored() -> None:
    gone_silent()
    stored(1, unrecognised=[item()])
    with CaptureQueriesContext(connection) as few:
        drift.report()
    for number in range(10):
        stored(number, "flux.hot", unrecognised=[item(f"t{number}")])
    with CaptureQueriesContext(connection) as more:
        drift.report()
    assert len(few) == len(more) == 9
