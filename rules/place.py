"""Who is where: ranks, nodes, GPUs and addresses, from the scheduler or recovered from the logs themselves."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from rules.attempt import Attempt
from rules.extract import Sighting, normal
from rules.observation import Observation
from rules.stamp import Stamp, parse_stamp, place
from rules.words import Source

_PORT = re.compile(r"<\d+>$|:\d{1,5}$|\[\d+\]$")
#: "JobId=12", "StepId=12.0", "*** STEP 12.0 ON" and the first column of `sacct -P`.
_JOB_IDS = re.compile(r"\b(?:JobId=|StepId=|JobID=|STEP |JOB )(\d+)\b|^(\d+)(?:\.\w+)?\|")
#: Slurm's control group of a job, in the kernel's line about a process killed for memory.
_CGROUP = re.compile(r"/job_(\d+)(?:/|,|$)")
_DOMAIN = re.compile(r"^([A-Za-z][A-Za-z0-9_-]*[0-9A-Za-z])\.[A-Za-z0-9.-]+$")


@dataclass
class Places:
    """The maps of one attempt. A fact that two lines state differently is not used."""

    nodes: frozenset[str] = frozenset()
    job_id: str = ""
    rank_node: dict[int, str] = field(default_factory=dict)
    rank_gpu: dict[int, str] = field(default_factory=dict)
    address_node: dict[str, str] = field(default_factory=dict)
    uuid_gpu: dict[tuple[str, str], str] = field(default_factory=dict)

    def locate(self, locus: dict[str, str]) -> dict[str, str]:
        """The locus with what the maps add: rank → node, UUID → PCI address, address → node, short host names."""
        out = dict(locus)
        if "node" in out:
            out["node"] = self.node_name(out["node"])
        rank = int(out["rank"]) if out.get("rank", "").isdigit() else None
        if "job" not in out and "node" not in out and rank in self.rank_node:
            out["node"] = self.rank_node[rank]
        if "gpu" in out:
            out["gpu"] = self.uuid_gpu.get((out.get("node", ""), out["gpu"]), out["gpu"])
        if "peer" in out:
            out["peer"] = self.peer_name(out["peer"])
        return out

    def node_name(self, text: str) -> str:
        """One name for one node: a member of the attempt by its short name or address, else the text."""
        text = self.address_node.get(text, text)
        if text in self.nodes:
            return text
        short = _DOMAIN.match(text)
        return short[1] if short and (not self.nodes or short[1] in self.nodes) else text

    def peer_name(self, text: str) -> str:
        """The node behind a peer's address: "10.0.0.1<43021>" by the map, "gpu-7.cluster<47861>" by its name."""
        bare = _PORT.sub("", text)
        if bare.isdigit() and int(bare) in self.rank_node:
            return self.rank_node[int(bare)]
        return self.node_name(bare)

    def member(self, node: str) -> bool:
        """Whether a node belongs to the attempt, as far as is known."""
        return not self.nodes or node in self.nodes

    def other_job(self, observation: Observation) -> str:
        """The job that a scheduler's line or a kernel's control group speaks of, if it is another than the attempt's.

        Array and heterogeneous jobs print several ids for one job, so only a plain id is compared.
        """
        if not self.job_id.isdigit():
            return ""
        if observation.source is Source.SYSLOG and (group := _CGROUP.search(observation.body)):
            return group[1] if group[1] != self.job_id else ""
        if observation.source is not Source.SCHEDULER:
            return ""
        named = [a or b for a, b in _JOB_IDS.findall(observation.body[:2000])]
        return named[0] if named and self.job_id not in named else ""

    def stamp(self, sighting: Sighting, *, near: int | None, zone: str) -> Stamp | None:
        """The sighting's stamp with year and zone where the attempt gives them; uptime where there is no date."""
        if sighting.stamp is None:
            return sighting.uptime
        return place(sighting.stamp, near=near, utc_offset=zone)


def build_places(attempt: Attempt, sightings: Iterable[Sighting]) -> Places:
    """The maps that an attempt and its mapping lines give. The scheduler's word outranks the logs'."""
    facts: dict[tuple[str, str], set[str]] = {}
    mapping = [s for s in sightings if s.maps]
    # Sub-communicators number their ranks anew: only the largest communicator gives the ranks of the job.
    world = max((int(s.maps["ranks"]) for s in mapping if s.maps.get("ranks", "").isdigit()), default=0)
    for sighting in mapping:
        maps = sighting.maps
        if maps.get("ranks", "").isdigit() and int(maps["ranks"]) < world:
            continue
        node = maps.get("node") or sighting.locus.get("node", "")
        rank = maps.get("rank", "")
        if rank.isdigit() and node:
            facts.setdefault(("rank_node", rank), set()).add(node)
        if rank.isdigit() and maps.get("gpu"):
            facts.setdefault(("rank_gpu", rank), set()).add(_gpu(maps["gpu"]))
        if maps.get("address") and node:
            facts.setdefault(("address", _PORT.sub("", maps["address"])), set()).add(node)
        if maps.get("uuid") and maps.get("gpu"):
            facts.setdefault((f"uuid:{node}", maps["uuid"]), set()).add(normal("gpu", maps["gpu"]))
    places = Places(nodes=frozenset(attempt.nodes), job_id=attempt.job_id)
    for (kind, key), values in sorted(facts.items()):
        if len(values) != 1:
            continue
        value = next(iter(values))
        if kind == "address":
            places.address_node[key] = places.node_name(value)
        elif kind == "rank_node":
            places.rank_node[int(key)] = value
        elif kind == "rank_gpu":
            places.rank_gpu[int(key)] = value
        else:
            places.uuid_gpu[kind.partition(":")[2], key] = value
    places.rank_node = {number: places.node_name(name) for number, name in places.rank_node.items()}
    for rank_text, spot in attempt.ranks.items():
        if spot.node:
            places.rank_node[int(rank_text)] = spot.node
        if spot.gpu:
            places.rank_gpu[int(rank_text)] = _gpu(spot.gpu)
    return places


def _gpu(text: str) -> str:
    """NCCL prints a bus id without colons ("65000" for 0000:65:00.0)."""
    if (re.fullmatch(r"[0-9a-f]{4,8}", text) and not text.isdigit()) or re.fullmatch(r"[0-9]{5,8}", text):
        digits = text.rjust(7, "0")
        return f"{int(digits[:-5] or '0', 16):04x}:{digits[-5:-3]}:{digits[-3:-1]}"
    return normal("gpu", text)


def reference(attempt: Attempt) -> int | None:
    """A moment of the attempt in microseconds, for dates without a year; None when it has no window."""
    stamps = [parse_stamp(text) for text in (attempt.end, attempt.start, attempt.submit_time) if text]
    return next((stamp.micros for stamp in stamps if stamp is not None), None)
