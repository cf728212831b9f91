"""The three policies of docs/recovery-policies.md for a made-up fleet, each with its mode and its record."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from recovery.policies import meter
from recovery.policy import Rule
from recovery.words import PolicyMode

START = datetime(2026, 1, 1, tzinfo=UTC)
#: A policy for a fleet of ten thousand nodes: see docs/recovery-policies.md.
CAPS: dict[str, Any] = {
    "nodes_per_job": 32,
    "nodes_per_hour": 16,
    "nodes_per_day": 128,
    "exclusions_alive": 200,
    "actions_per_hour": 200,
    "cluster_share": 0.02,
    "partition_share": 0.02,
    "cooldown_minutes": 2,
    "settle_seconds": 60,
}
#: Direct evidence of a broken part: what an application cannot bring about by itself.
BROKEN = [
    "gpu_uncorrectable_ecc",
    "gpu_uncorrectable_?ram",
    "gpu_row_remap_failure",
    "gpu_off_bus",
    "gpu_gsp_*",
    "gpu_fatal_timeout",
    "nvlink_link_down",
    "nvlink_link_failed",
    "pcie_fatal",
    "memory_uncorrected",
    "machine_check",
    "nvme_lost",
    "power_supply_failed",
]
EXCLUDE: dict[str, Any] = {
    "match": {
        "domains": ["gpu_hardware", "nvlink_fabric", "host_hardware"],
        "symptoms": BROKEN,
        "strengths": ["strong"],
    },
    "action": "restart_excluding",
    "caps": CAPS,
    "exclusion_hours": 12,
    "waits_minutes": 5,
    "label_share": 1.0,
}
#: What is less sure, and what a switch may be to blame for, must come back on the same node. Not a GPU's firmware that
#: timed out: an application can bring that about, again and again.
AGAIN: dict[str, Any] = {
    "match": {
        "domains": ["gpu_hardware", "nvlink_fabric", "host_hardware", "host_software", "network_fabric"],
        "symptoms": [
            *(word for word in BROKEN if "gsp" not in word),
            "kernel_panic",
            "ib_link_down",
            "nic_failed",
            "fabric_port_flapping",
        ],
        "strengths": ["strong", "moderate"],
        "blamed_before": 1,
    },
    "action": "restart_excluding",
    "caps": CAPS,
    "exclusion_hours": 12,
    "label_share": 1.0,
}
RESTART: dict[str, Any] = {
    "match": {"strengths": ["strong", "moderate", "weak"]},
    "action": "restart",
    "caps": {"actions_per_hour": 200, "cooldown_minutes": 2},
}


@dataclass
class Made:
    """An exclusion that was made: of which case of which scope it is, and whether it was marked wrong."""

    at: float
    job: int
    symptom: str
    node: int
    scope: "Scope"
    key: str
    wrong: bool = False


@dataclass
class Scope:
    """A policy for one domain, with its mode and its record."""

    rule: Rule
    mode: PolicyMode
    since: datetime = START
    cases: dict[str, meter.Labelled] = field(default_factory=dict)
    #: What a recurrence said before diagnostics did, and when.
    said_wrong: dict[str, datetime] = field(default_factory=dict)
    looked: float = -1.0
    promoted: int = 0
    demoted: int = 0

    def look(self, at: float) -> None:
        """Once a day, with the labels that are there by then: is the record good enough, or no longer?"""
        day = at // 24
        if day > self.looked:
            self.looked = day
            self.look_now(at)

    def look_now(self, at: float) -> None:
        """The same, at once: as when a label is given."""
        now = moment(at)
        known = [self._known(case, now) for case in self.cases.values()]
        if self.mode is PolicyMode.AUTOMATIC:
            if meter.why_demote(known, since=self.since, now=now):
                self.mode, self.since, self.demoted = PolicyMode.ADVISORY, now, self.demoted + 1
        elif meter.read(known, now=now).promotable:
            self.mode, self.since, self.promoted = PolicyMode.AUTOMATIC, now, self.promoted + 1

    def _known(self, case: meter.Labelled, now: datetime) -> meter.Labelled:
        if case.known_at and case.known_at <= now:
            return case
        if case.key in self.said_wrong:
            return replace(case, right=False, known_at=self.said_wrong[case.key])
        return meter.Labelled(key=case.key, incident=case.incident, at=case.at, due=case.due)


def moment(at: float) -> datetime:
    """Hours since the beginning as a time."""
    return START + timedelta(hours=at)


def hours(time: timedelta) -> float:
    """A duration in hours, as the simulation counts."""
    return time / timedelta(hours=1)
