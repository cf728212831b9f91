"""A store as a large site has it after a year, made up: by COPY, into an empty database.

The same number and seed give the same rows. Shares are those of published fleets, roughly: most attempts end
well, a third do not, few nodes are blamed again and again.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection

from rules.words import Source
from verdicts.bench.copying import copy_rows, without_indexes, without_triggers
from verdicts.models import Attempt

CHUNK = 10_000
EVIDENCE = 5
CLUSTERS = (("atlas", 45), ("borealis", 30), ("cumulus", 20), ("delta", 5))
NODES = 800
WORKLOADS, USERS, ACCOUNTS = 400, 180, 16
STATES = (
    ("succeeded", 550),
    ("failed", 250),
    ("cancelled", 60),
    ("timed_out", 45),
    ("out_of_memory", 30),
    ("preempted", 25),
    ("node_failed", 25),
    ("hung", 13),
    ("running", 2),
)
BAD = {"failed", "timed_out", "out_of_memory", "node_failed", "hung"}
#: What is blamed: domain, share, symptom and rule of its cause, headline.
CAUSES = (
    ("application_code", 260, "python_error", "application.python-error", "An exception of {workload} ended it."),
    ("gpu_hardware", 150, "gpu_off_bus", "gpu.off-the-bus", "The GPU 0000:65:00 of {node} fell off the bus."),
    ("network_fabric", 90, "link_down", "network.link-down", "The link mlx5_2 of {node} went down."),
    ("nvlink_fabric", 70, "nvlink_down", "nvlink.xid-149-link-down", "NVLink 5 of {node} went down."),
    ("resource_exhaustion", 90, "host_oom", "host.oom-kill", "{workload} outgrew the memory of {node}."),
    ("storage", 70, "stale_handle", "storage.stale-file-handle", "The file system of {node} lost its server."),
    ("application_config", 60, "bad_argument", "application.bad-argument", "{workload} refused a setting."),
    ("scheduler", 40, "time_limit", "scheduler.time-limit", "The time limit of {workload} ended it."),
    ("host_hardware", 30, "memory_error", "host.uncorrected-memory", "A memory module of {node} failed."),
    ("container_image", 20, "image_pull", "image.pull-failed", "The image of {workload} could not be pulled."),
    ("facility", 5, "power_loss", "facility.power", "{node} lost its power."),
    ("ambiguous", 45, "gpu_off_bus", "gpu.off-the-bus", "The GPU or its slot on {node}: nothing orders them."),
    ("unattributed", 70, "", "", "It failed; nothing that was collected says why."),
)
CONSEQUENCES = (("nccl_watchdog_timeout", "nccl.watchdog-timeout"), ("nccl_remote_error", "nccl.remote-error"))
COLUMNS = {
    "verdicts_attempt": "id cluster_id scheduler job_id submit_time restart_count workload_id state user account "
    "partition started_at ended_at body generation cut created_at",
    "verdicts_observation": "attempt_id digest source collector node rank ref timestamp observed_timestamp body "
    "attributes count",
    "verdicts_verdict": "id attempt_id number is_current superseded_at mode state domain strength headline ended_at "
    "happened_at generation body body_json body_sha256 coverage ruleset_id engine created_at",
    "verdicts_verdict_nodes": "verdict_id node_id",
    "verdicts_finding": "verdict_id finding status rule symptom domain role strength title node gpu rank count "
    "explained_by",
    "verdicts_namedport": "verdict_id finding status symptom of owner port happened_at",
    "verdicts_review": "id verdict_id author_id label actual_domain actual_nodes note created_at replaced_at",
    "verdicts_attributionrequest": "id attempt_id mode state created_at due_at tries error fence lease_owner "
    "verdict_id finished_at",
}
Rows = dict[str, list[tuple[Any, ...]]]


class NotEmptyError(RuntimeError):
    """The database has attempts: made-up ones do not belong among them."""


def fill(number: int, *, seed: int = 1, until: datetime | None = None, days: int = 365) -> Iterator[int]:
    """Fill an empty store with so many attempts and five observations for each; yields how many are there."""
    if Attempt.objects.exists():
        raise NotEmptyError("there are attempts in this database: make one of its own for this")
    made = _Maker(Random(seed), number, until or datetime.now(UTC), days)
    made.names()
    with without_triggers(COLUMNS), without_indexes(COLUMNS), connection.cursor() as cursor:
        for start in range(0, number, CHUNK):
            rows = made.chunk(range(start, min(start + CHUNK, number)))
            for table, columns in COLUMNS.items():
                copy_rows(cursor, table, columns.split(), rows[table])
            yield min(start + CHUNK, number)
    with without_triggers(["verdicts_listrow"]), without_indexes(["verdicts_listrow"]), connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # or the join of all tables is planned for empty ones
        cursor.execute("SELECT verdicts_list_all()")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")


class _Maker:
    """Makes rows. Everything random comes from one generator."""

    def __init__(self, random: Random, number: int, until: datetime, days: int) -> None:
        self.random, self.number, self.until = random, number, until
        self.step = timedelta(days=days) / max(number, 1)

    def uuid(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def names(self) -> None:
        """The few rows that all others refer to."""
        self.clusters = [(self.uuid(), name) for name, _ in CLUSTERS]
        self.nodes = {
            cluster: [(self.uuid(), f"{name[0]}-gpu-{index:04}") for index in range(1, NODES + 1)]
            for cluster, name in self.clusters
        }
        self.accounts = [f"team-{index:02}" for index in range(1, ACCOUNTS + 1)]
        self.users = [f"user{index:03}" for index in range(1, USERS + 1)]
        self.workloads = {
            cluster: [
                (self.uuid(), f"{kind}-{size}-{index:03}", self.accounts[index % ACCOUNTS])
                for index in range(WORKLOADS // len(CLUSTERS))
                for kind in (("pretrain", "finetune", "eval", "embed")[index % 4],)
                for size in (("7b", "13b", "70b", "vision", "asr")[index % 5],)
            ]
            for cluster, _ in self.clusters
        }
        self.rulesets = [(self.uuid(), hashlib.sha256(str(index).encode()).hexdigest()) for index in range(6)]
        with connection.cursor() as cursor:
            copy_rows(cursor, "verdicts_cluster", ["id", "name"], self.clusters)
            nodes = [(pk, cluster, name) for cluster, found in self.nodes.items() for pk, name in found]
            copy_rows(cursor, "verdicts_node", ["id", "cluster_id", "name"], nodes)
            loads = [
                (pk, cluster, account, name) for cluster, all_ in self.workloads.items() for pk, name, account in all_
            ]
            copy_rows(cursor, "verdicts_workload", ["id", "cluster_id", "account", "name"], loads)
            rulesets = [(pk, digest, 400, "[]") for pk, digest in self.rulesets]
            copy_rows(cursor, "verdicts_rulesetversion", ["id", "digest", "rules", "layers"], rulesets)
        self.reviewer = User.objects.create_user("bench-reviewer").pk

    def chunk(self, places: range) -> Rows:
        """The rows of some attempts, the oldest first."""
        rows: Rows = defaultdict(list)
        for place in places:
            self.attempt(place, rows)
        return rows

    def attempt(self, place: int, rows: Rows) -> None:
        random = self.random
        cluster, _ = random.choices(self.clusters, [share for _, share in CLUSTERS])[0]
        workload, name, account = self.workloads[cluster][int(random.random() ** 2 * len(self.workloads[cluster]))]
        newest = place >= self.number - max(self.number // 500, 5)
        state = random.choices([word for word, _ in STATES], [share for _, share in STATES])[0]
        if state == "running" and not newest:
            state = "succeeded"
        end = self.until - self.step * (self.number - place)
        start = end - timedelta(minutes=random.randint(3, 3000))
        ended = None if state == "running" else end.isoformat()
        pk, job = self.uuid(), str(100_000 + place)
        members = random.sample(self.nodes[cluster], 4)
        body = {"job_id": job, "cluster": cluster, "workload": name, "nodes": [node for _, node in members]}
        rows["verdicts_attempt"].append(
            (
                pk,
                cluster,
                "slurm",
                job,
                start.isoformat(),
                0,
                workload,
                state.upper(),
                random.choice(self.users),
                account,
                "gpu",
                start.isoformat(),
                ended,
                json.dumps(body),
                1,
                "{}",
                (ended or start.isoformat()),
            )
        )
        for line in range(EVIDENCE):
            text = f"rank{line}: step {place} of {name}: loss 2.{line}31, 411 ms"
            rows["verdicts_observation"].append(
                (
                    pk,
                    f"{random.getrandbits(256):064x}",
                    "applog",
                    "files",
                    members[line % 4][1],
                    line,
                    f"applog/rank{line}.log:{place}",
                    end.isoformat(),
                    None,
                    text,
                    "{}",
                    1,
                )
            )
        if not (newest and random.random() < 0.1):
            self.verdict(pk, cluster, members, name, state, start, ended, newest=newest, rows=rows)

    def verdict(
        self,
        attempt: str,
        cluster: str,
        members: list[tuple[str, str]],
        workload: str,
        state: str,
        start: datetime,
        ended: str | None,
        *,
        newest: bool,
        rows: Rows,
    ) -> None:
        random = self.random
        domain, symptom, rule, headline = (
            "no_failure",
            "",
            "",
            "It ended well; nothing that was collected says otherwise.",
        )
        if state in BAD:
            domain, _, symptom, rule, headline = random.choices(CAUSES, [share for _, share, *_ in CAUSES])[0]
        elif state in ("cancelled", "preempted"):
            domain, headline = "user_action" if state == "cancelled" else "scheduler", f"It was {state}."
        blamed: list[tuple[str, str]] = []
        if "{node}" in headline:
            # Few nodes are bad: they are blamed more often than the others.
            blamed = [self.nodes[cluster][int(random.random() ** 3 * NODES)]]
        strength = random.choice(("strong", "moderate", "weak")) if rule and domain != "ambiguous" else ""
        headline = headline.format(workload=workload, node=blamed[0][1] if blamed else "")
        coverage = self.coverage()
        found = [(symptom, rule, "candidate" if domain == "ambiguous" else "cause", domain)] if rule else []
        if state in BAD:
            found += [(kind, by, "demoted", "") for kind, by in CONSEQUENCES]
        happened = ended or start.isoformat()
        ruleset, digest = self.rulesets[random.randrange(len(self.rulesets))]
        numbers = (1, 2) if random.random() < 0.02 else (1,)
        for number in numbers:
            pk, last = self.uuid(), number == numbers[-1]
            body = json.dumps(_body(state, domain, strength, headline, found, blamed, coverage, digest, happened))
            rows["verdicts_verdict"].append(
                (
                    pk,
                    attempt,
                    number,
                    last,
                    None if last else happened,
                    "slow",
                    state,
                    domain,
                    strength,
                    headline,
                    ended,
                    happened,
                    1,
                    body,
                    body,
                    hashlib.sha256(body.encode()).hexdigest(),
                    json.dumps(coverage),
                    ruleset,
                    "1",
                    happened,
                )
            )
            rows["verdicts_verdict_nodes"] += [(pk, node) for node, _ in blamed]
            place = blamed[0][1] if blamed else ""
            rows["verdicts_finding"] += [
                (
                    pk,
                    f"f{index}",
                    status,
                    by,
                    kind,
                    blames if blames != "ambiguous" else "gpu_hardware",
                    "symptom" if status == "demoted" else "cause",
                    "",
                    kind,
                    place,
                    "",
                    None,
                    1,
                    rule if status == "demoted" else "",
                )
                for index, (kind, by, status, blames) in enumerate(found, start=1)
            ]
            if symptom == "link_down":
                port = (pk, "f1", found[0][2], symptom, "node", place, "mlx5_2 port 1", happened)
                rows["verdicts_namedport"].append(port)
        if state in BAD and random.random() < 0.02:
            label = random.choices(("right", "wrong", "undecidable"), (80, 12, 8))[0]
            actual = "storage" if label == "wrong" else ""
            rows["verdicts_review"].append((self.uuid(), pk, self.reviewer, label, actual, "[]", "", happened, None))
        asked = "done"
        if newest and random.random() < 0.05:
            asked = random.choice(("pending", "failed"))
        rows["verdicts_attributionrequest"].append(
            (
                self.uuid(),
                attempt,
                "slow",
                asked,
                happened,
                happened,
                1,
                "",
                0,
                "",
                pk if asked == "done" else None,
                None if asked == "pending" else happened,
            )
        )

    def coverage(self) -> list[dict[str, Any]]:
        said = []
        for source in Source:
            common = source in (Source.APPLOG, Source.SYSLOG, Source.SCHEDULER, Source.GPU_EVENTS)
            luck = self.random.random()
            status = ("ok" if luck < 0.93 else "error" if luck < 0.96 else "partial") if common else "not_configured"
            said.append({"source": source.value, "status": status, "reason": "" if status == "ok" else "not reached"})
        return said


def _body(
    state: str,
    domain: str,
    strength: str,
    headline: str,
    found: list[tuple[str, str, str, str]],
    blamed: list[tuple[str, str]],
    coverage: list[dict[str, Any]],
    digest: str,
    at: str,
) -> dict[str, Any]:
    """A verdict's JSON, as short as a page can be made of."""
    place = {"node": blamed[0][1]} if blamed else {}
    told = [
        {
            "id": f"f{index}",
            "rule": rule,
            "title": symptom.replace("_", " "),
            "symptom": symptom,
            "domain": blames or None,
            "role": "cause",
            "maturity": "stable",
            "strength": strength or None,
            "locus": place,
            "nodes": list(place.values()),
            "ranks": [],
            "peers": [],
            "count": 1,
            "first": at,
            "last": at,
            "status": status,
            "evidence": [
                {
                    "source": "syslog",
                    "node": place.get("node", ""),
                    "rank": None,
                    "ref": f"syslog:{index}",
                    "file": "syslog",
                    "line": index,
                    "time": at,
                    "text": f"kernel: made up: {symptom}",
                }
            ],
        }
        for index, (symptom, rule, status, blames) in enumerate(found, start=1)
    ]
    lists = {"causes": "cause", "candidates": "candidate", "demoted": "demoted", "interesting": "interesting"}
    return {
        "attempt": {},
        "terminal_state": state,
        "attributed_domain": domain,
        "strength": strength or None,
        "headline": headline,
        "mode": "slow",
        "engine": "1",
        "shared_element": None,
        "affected_nodes": [{"name": name, "gpus": [], "ranks": [], "links": []} for _, name in blamed],
        **{name: [one for one in told if one["status"] == status] for name, status in lists.items()},
        "unrecognised": [],
        "coverage": coverage,
        "blind_spots": [],
        "discriminating_tests": [],
        "overturned_by": [],
        "advice": {"now": [], "later": []},
        "missing": [],
        "proof": [],
        "ruleset": {"digest": digest, "rules": 400, "layers": ["shipped"]},
    }
