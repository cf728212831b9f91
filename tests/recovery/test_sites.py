"""The file that says which schedulers may be acted on, and the command that stops and looks."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from django.db import DatabaseError
from django.utils import timezone

from recovery.acting import sites
from recovery.acting.cli import recovery
from recovery.acting.sites import SiteError, read_sites
from recovery.actuators.base import Unseen
from recovery.models import Action, ActuatorState, LedgerEntry
from recovery.words import RELIEF, ActionKind, EntryKind
from tests.recovery.acting import acting_on, an_action
from tests.recovery.fake_slurm import FakeSlurm
from verdicts.models import Cluster


def written(folder: Path, text: str) -> Path:
    path = folder / "recovery.toml"
    path.write_text(text)
    return path


SLURM = """
[[cluster]]
name = "alpha"
[cluster.actuator]
kind = "slurm"
"""


def test_a_short_file_allows_what_contains_jobs_and_nothing_on_nodes(tmp_path: Path) -> None:
    [site] = read_sites(written(tmp_path, SLURM)).cluster
    assert site.actuator.kind == "slurm"
    assert ActionKind.DRAIN not in site.actuator.may and ActionKind.RESTART_EXCLUDING in site.actuator.may
    [site] = read_sites(written(tmp_path, SLURM + 'actions = ["drain"]')).cluster
    assert site.actuator.may == {ActionKind.DRAIN, *RELIEF}, "what was taken may be given back"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[cluster", "recovery.toml: "),
        ('[[cluster]]\nname = "alpha"', "cluster[0] (in alpha): Object missing required field `actuator`"),
        (SLURM.replace("slurm", "pbs"), "a kind is one of "),
        (SLURM + "setle = 3", "cluster[0].actuator (in alpha): Object contains unknown field `setle`"),
        (SLURM + 'actions = ["reboot"]', "cluster[0].actuator.actions[0] (in alpha)"),
        (SLURM + SLURM, "the name 'alpha' is there twice"),
        (SLURM + 'commands.folder = "/nowhere"', "cluster 'alpha': actuator: commands.folder: /nowhere is no folder"),
        (
            SLURM + 'server = { url = "http://s", token_file = "/nowhere" }',
            "server.token_file: /nowhere cannot be read",
        ),
    ],
)
def test_a_mistake_is_told_with_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SiteError) as error:
        read_sites(written(tmp_path, text))
    assert said in str(error.value) and "recovery.toml" in str(error.value)


@pytest.mark.django_db
def test_pages_learn_from_rows_whether_a_scheduler_can_be_acted_on(
    tmp_path: Path, settings: Any, monkeypatch: Any
) -> None:
    settings.INQUEST_RECOVERY_FILE = str(written(tmp_path, SLURM))
    sites.current_sites.cache_clear()
    gone = Cluster.objects.create(name="gone")
    ActuatorState.objects.create(cluster=gone, kind="slurm", reachable=True)
    with acting_on(FakeSlurm(), monkeypatch) as way:
        assert sites.tell() == 1
        row = ActuatorState.objects.get()
        assert (row.cluster.name, row.kind, row.reachable, row.said) == ("alpha", "slurm", True, "Slurm 22.05")
        assert "restart" in row.can

        def unseen() -> str:
            raise Unseen("no answer")

        way.probe = unseen  # type: ignore[method-assign]
        assert sites.tell() == 0
    row.refresh_from_db()
    assert (row.reachable, row.said) == (False, "no answer")
    sites.current_sites.cache_clear()


@pytest.fixture
def stop_file(settings: Any, tmp_path: Path) -> Path:
    settings.INQUEST_RECOVERY_STOP_FILE = str(tmp_path / "stop")
    return tmp_path / "stop"


@pytest.mark.django_db
def test_the_kill_switch_is_thrown_and_taken_back_with_a_reason_in_the_ledger(stop_file: Path) -> None:
    run = CliRunner().invoke
    assert run(recovery, ["stop"]).exit_code == 2, "a reason is needed"
    assert run(recovery, ["stop", "--reason", "all nodes drain"]).exit_code == 0
    assert "all nodes drain" in stop_file.read_text()
    assert "is there" in run(recovery, ["status"]).output
    assert run(recovery, ["go", "--reason", "it was the switch"]).exit_code == 0
    assert not stop_file.exists()
    assert "not stopped" in run(recovery, ["go", "--reason", "again"]).output
    kinds = LedgerEntry.objects.filter(subject_kind="kill_switch").order_by("at").values_list("kind", flat=True)
    assert list(kinds) == [EntryKind.BRAKE_OPENED, EntryKind.BRAKE_RELEASED]


def test_the_kill_switch_works_without_a_database(stop_file: Path, monkeypatch: Any) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise DatabaseError("away")

    monkeypatch.setattr("recovery.acting.cli.transaction.atomic", away)
    done = CliRunner().invoke(recovery, ["stop", "--reason", "now"])
    assert done.exit_code == 0 and stop_file.exists()
    assert "could not be written" in done.output


@pytest.mark.django_db
def test_status_names_what_needs_a_person(stop_file: Path) -> None:
    action = an_action()
    assert CliRunner().invoke(recovery, ["status"]).exit_code == 0
    Action.objects.filter(pk=action.pk).update(deadline=timezone.now() - timedelta(hours=1))
    done = CliRunner().invoke(recovery, ["status"])
    assert done.exit_code == 1 and action.mark in done.output
