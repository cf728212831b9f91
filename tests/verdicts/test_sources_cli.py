"""`inquest sources`: what it says and how it ends, whatever file, database or answer it meets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from django.db import OperationalError
from django.utils import timezone

from tests.verdicts.builders import an_attempt
from verdicts import clusters, record
from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.files import Files
from verdicts.collectors.source import Probe
from verdicts.models import SourceState
from verdicts.sources import check as source_check
from verdicts.sources import standing as sources
from verdicts.sources.cli import sources as command

pytestmark = pytest.mark.django_db

FILE = """
[[cluster]]
name = "alpha"

[[cluster.discovery]]
kind = "static"
name = "drop"
folder = "{folder}"

[[cluster.source]]
kind = "files"
name = "kernel"
source = "syslog"
root = "{folder}"
paths = ["{{node}}.log"]

[[cluster.source]]
kind = "files"
name = "train"
source = "applog"
root = "{folder}"
paths = ["*.out"]
"""
Run = Callable[..., Result]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Probe | Exception]:
    """What each source of the file answers when it is looked at."""
    found: dict[str, Probe | Exception] = {}

    def probe(self: Files, nodes: object, budget: Budget) -> Probe:
        answer = found.get(self.name, Probe(newest=timezone.now(), nodes=frozenset({"gpu-01", "gpu-02"})))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Files, "probe", probe)
    return found


@pytest.fixture
def run(tmp_path: Path, settings: Any, answers: dict[str, Probe | Exception], sent: list[str]) -> Run:
    """Call `inquest sources` with a clusters file; another text or None for none may be given."""
    record.record_attempt(an_attempt())

    def call(*arguments: str, text: str | None = FILE) -> Result:
        path = tmp_path / "clusters.toml"
        if text is not None:
            path.write_text(text.format(folder=tmp_path) if text is FILE else text)
        settings.INQUEST_CLUSTERS_FILE = str(path) if text is not None else ""
        for known in (clusters.current_clusters, clusters.cluster_row):
            known.cache_clear()
        sources.forget()
        return CliRunner().invoke(command, arguments, catch_exceptions=False)

    return call


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    for known in (clusters.current_clusters, clusters.cluster_row):
        known.cache_clear()
    sources.forget()


def test_every_source_that_sees_is_an_exit_status_of_0(run: Run) -> None:
    ended = run("check")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert "sees     alpha / kernel (files, syslog)" in ended.stdout
    assert "knows 2 of 2 nodes" in ended.stdout


def test_a_blind_source_is_an_exit_status_of_1_and_says_what_to_do(
    run: Run, answers: dict[str, Probe | Exception]
) -> None:
    answers["kernel"] = SourceError("the folder is not there: mount it")
    ended = run("check")
    assert ended.exit_code == 1
    assert "BLIND    alpha / kernel" in ended.stdout
    assert "→ the folder is not there: mount it" in ended.stdout
    assert "rules read this kind of evidence" in ended.stdout


def test_a_degraded_source_fails_only_when_that_is_asked_for(run: Run, answers: dict[str, Probe | Exception]) -> None:
    answers["kernel"] = Probe(newest=timezone.now(), nodes=frozenset({"gpu-01"}))
    assert run("check").exit_code == 0
    ended = run("check", "--strict")
    assert ended.exit_code == 1
    assert "DEGRADED alpha / kernel" in ended.stdout


def test_a_node_that_must_be_known_can_be_named(run: Run) -> None:
    ended = run("check", "--node", "gpu-99", "--source", "kernel", "--strict")
    assert ended.exit_code == 1
    assert "Nothing came lately of gpu-99" in ended.stdout


def test_as_json_there_is_nothing_but_json(run: Run, answers: dict[str, Probe | Exception]) -> None:
    answers["train"] = SourceError("down")
    ended = run("check", "--json")
    told = json.loads(ended.stdout)
    assert [(one["name"], one["health"]) for one in told] == [("kernel", "sees"), ("train", "blind")]
    assert ended.exit_code == 1


def test_what_a_store_answers_cannot_write_to_the_terminal(run: Run, answers: dict[str, Probe | Exception]) -> None:
    answers["kernel"] = SourceError("\x1b[2Jgone\x07")
    answers["train"] = Probe(newest=timezone.now(), nodes=frozenset({"\x1b]0;title\x07"}))
    said = run("check").stdout
    assert "gone" in said
    assert not {"\x1b", "\x07"} & set(said)


@pytest.mark.parametrize("arguments", [("--source", "nothing"), ("--cluster", "beta")])
def test_a_name_that_is_not_there_is_an_exit_status_of_2(run: Run, arguments: tuple[str, str]) -> None:
    ended = run("check", *arguments)
    assert ended.exit_code == 2
    assert "no source is configured by that name" in ended.stderr


@pytest.mark.parametrize("what", ["check", "list"])
def test_without_a_file_it_says_how_to_begin(run: Run, what: str) -> None:
    ended = run(what, text=None)
    assert ended.exit_code == 2
    assert "INQUEST_CLUSTERS_FILE" in ended.stderr


@pytest.mark.parametrize("what", ["check", "list"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[cluster", "clusters.toml"),
        ('[[cluster]]\nnam = "alpha"', "nam"),
        (
            '[[cluster]]\nname = "a"\n[[cluster.source]]\nkind = "splunk"\nname = "x"\nsource = "syslog"',
            "a kind is one of",
        ),
    ],
)
def test_a_wrong_file_is_an_exit_status_of_3_and_names_the_place(run: Run, what: str, text: str, words: str) -> None:
    ended = run(what, text=text)
    assert ended.exit_code == 3
    assert words in ended.stderr
    assert "Traceback" not in ended.output


def test_a_database_that_is_down_is_an_exit_status_of_3_without_a_traceback(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError('connection to server at "127.0.0.1", port 1 failed: Connection refused')

    monkeypatch.setattr(source_check, "_nodes_of", away)
    ended = run("check")
    assert ended.exit_code == 3
    assert "the database cannot be used: connection to server" in ended.stderr
    assert "Traceback" not in ended.output


def test_a_dry_run_leaves_the_sites_state_alone(run: Run) -> None:
    ended = run("check", "--dry-run", "--json")
    assert ended.exit_code == 0
    assert "nothing is stored" in ended.stderr
    assert len(json.loads(ended.stdout)) == 2
    assert not SourceState.objects.exists()


def test_a_file_that_the_site_does_not_run_with_is_only_tried(run: Run, tmp_path: Path) -> None:
    run("check")
    assert SourceState.objects.count() == 2, "no site is known to run: this is taken for its file"
    source_check.check_in_turn()
    trial = tmp_path / "trial.toml"
    trial.write_text(FILE.format(folder=tmp_path).replace("kernel", "kernel-new"))
    ended = run("check", "--file", str(trial))
    assert "kernel-new" in ended.stdout
    assert f"{trial} is only tried: the site runs with {tmp_path / 'clusters.toml'}" in ended.stderr
    SourceState.objects.update(check_body={"site_file": "/etc/inquest/clusters.toml"})
    assert "only tried: the site runs with /etc/inquest/clusters.toml" in run("check").stderr
    assert set(SourceState.objects.values_list("name", flat=True)) == {"kernel", "train"}
    assert SourceState.objects.first().check_body == {"site_file": "/etc/inquest/clusters.toml"}


def test_the_list_shows_what_is_configured_and_what_is_not(run: Run) -> None:
    ended = run("list")
    assert ended.exit_code == 0
    assert "attempts        drop (static), every 10 s" in ended.stdout
    assert "syslog          kernel (files)" in ended.stdout
    assert "not configured: " in ended.stdout
