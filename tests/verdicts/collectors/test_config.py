"""The clusters file: what it may say, and how a mistake in it is told."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from verdicts.collectors.ask import Budget
from verdicts.collectors.config import DISCOVERY_KINDS, SOURCE_KINDS, ConfigError, read_clusters
from verdicts.collectors.static import StaticDiscovery

GOOD = """
[[cluster]]
name = "alpha"
deadline = 45

[[cluster.discovery]]
kind = "static"
name = "folder"
folder = "{folder}"

[[cluster.source]]
kind = "loki"
name = "kernel"
source = "syslog"
selector = 'job="systemd-journal"'
node_label = "host"
server = {{ url = "http://loki.example:3100" }}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "clusters.toml"
    path.write_text(text)
    return path


def test_a_file_says_clusters_their_discoveries_and_their_sources(tmp_path: Path) -> None:
    clusters = read_clusters(written(tmp_path, GOOD.format(folder=tmp_path)))
    [(cluster, source)] = clusters.sources()
    assert (cluster.name, cluster.deadline, source.name, source.kind) == ("alpha", 45, "kernel", "loki")
    assert cluster.named("kernel") is source
    assert clusters.named("beta") is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "node_label",
            "node_lable",
            "cluster[0].source[0] (in alpha / kernel): Object contains unknown field `node_lable`",
        ),
        ('kind = "loki"', 'kind = "lokki"', "a kind is one of"),
        ('kind = "loki"', "", "a kind is one of"),
        ('"syslog"', '"syslogs"', "cluster[0].source[0].source"),
        ('name = "kernel"', 'name = "the kernel"', "cluster[0].source[0].name"),
        ("deadline = 45", 'deadline = "45"', "cluster[0].deadline (in alpha)"),
        ("deadline = 45", "deadline = 20", "seconds: 30 is longer than the cluster's deadline of 20"),
        ("http://loki", "ftp://loki", "cluster[0].source[0].server.url"),
        ("http://loki.example", "http://user:password@loki.example", "cluster[0].source[0].server.url"),
        ('3100"', '3100", token_file = "/nowhere/token"', "server.token_file: /nowhere/token cannot be read"),
        ('3100"', '3100", token_env = "NO_SUCH_TOKEN"', "the environment variable NO_SUCH_TOKEN is not set"),
        ('"systemd-journal"', "systemd-journal", "selector"),
        ("[[cluster]]", "[[cluster]", "at line 2"),
        ('folder = "', 'folder = "/nowhere', "is no folder"),
    ],
)
def test_a_mistake_is_told_with_the_file_the_key_and_the_name(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = written(tmp_path, GOOD.format(folder=tmp_path).replace(old, new, 1))
    with pytest.raises(ConfigError) as told:
        read_clusters(path)
    assert str(path) in str(told.value)
    assert words in str(told.value)
    assert "password@" not in str(told.value)


def test_names_that_are_there_twice_are_refused(tmp_path: Path) -> None:
    text = GOOD.format(folder=tmp_path)
    twice = text + text[text.index("[[cluster.source]]") :]
    with pytest.raises(ConfigError, match="source: the name 'kernel' is there twice"):
        read_clusters(written(tmp_path, twice))
    with pytest.raises(ConfigError, match="the name 'alpha' is there twice"):
        read_clusters(written(tmp_path, text + text))


def test_every_kind_of_system_can_be_named() -> None:
    assert {"loki", "victorialogs", "elasticsearch", "prometheus", "files", "slurm"} <= set(SOURCE_KINDS)
    assert {"kubernetes-logs", "kubernetes-events"} <= set(SOURCE_KINDS)
    assert DISCOVERY_KINDS == ["kubernetes", "slurm", "static"]


def test_a_site_does_not_start_with_a_mistake_in_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "[[cluster]]\nnmae = 'alpha'\n")
    said = {"PATH": os.environ["PATH"], "INQUEST_DATA_DIR": str(tmp_path), "INQUEST_CLUSTERS_FILE": str(path)}
    command = [sys.executable, "-c", "import django; django.setup()"]
    environment = {**said, "DJANGO_SETTINGS_MODULE": "attribution_site.settings"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "unknown field `nmae`" in done.stderr


# Attempts from files -----------------------------------------------------------------------------


def look(folder: Path, cursor: dict[str, Any]) -> Any:
    discovery = StaticDiscovery(name="folder", folder=str(folder))
    return discovery.discover(cursor, datetime.now(UTC), Budget.of(seconds=10, megabytes=1))


def test_each_file_is_an_attempt_and_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(json.dumps({"job_id": "1", "state": "FAILED"}))
    first = look(tmp_path, {})
    assert [attempt.job_id for attempt in first.attempts] == ["1"]
    assert look(tmp_path, first.cursor).attempts == []
    (tmp_path / "1.json").write_text(json.dumps({"job_id": "1", "state": "COMPLETED"}))
    os.utime(tmp_path / "1.json", ns=(1, 1))
    assert [attempt.state for attempt in look(tmp_path, first.cursor).attempts] == ["COMPLETED"]


def test_a_file_that_is_no_attempt_is_named_and_the_others_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"job_id": "1", "nodes": "gpu-01"}')
    (tmp_path / "b.json").write_text('{"job_id": "2"}')
    (tmp_path / "c.json").write_text('{"job_id": ')
    found = look(tmp_path, {})
    assert [attempt.job_id for attempt in found.attempts] == ["2"]
    assert any("a.json: nodes" in note for note in found.notes)
    assert any("c.json: not valid JSON" in note for note in found.notes)
