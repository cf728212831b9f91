"""Faults of a made-up fleet and the verdicts on them: the same for every way of answering, by the seed alone.

Where each figure comes from, and which have no source, is in docs/recovery-simulation.md.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from rules.words import Domain, Strength

HOUR, DAY = 1.0, 24.0
#: How long people take for a node that is out: assumed.
REPAIR = 36.0
RATE = 419 / 54 / 2048  # a node and day
IMAGE_DAYS, IMAGE_NODES = 15.0, 64
SAME_AGAIN = 0.5
#: The earliest error by its time on 334 labelled incidents: right, nothing said, wrong (`inquest bench attribution`).
FIRST_ERROR = (267, 45, 22)
#: What a job's own fault can look like on a GPU. (An MMU fault, Xid 31, is the application's in the catalogue.)
BLAMED_FOR = ("gpu_ctxsw_timeout", "gpu_ctxsw_timeout", "gpu_gsp_timeout")
#: Interruptions by what caused them: where it sits, its domain, its symptoms.
MIX: tuple[tuple[int, str, Domain, tuple[str, ...]], ...] = (
    (
        519,
        "node",
        Domain.GPU_HARDWARE,
        ("gpu_uncorrectable_ecc", "gpu_off_bus", "gpu_gsp_timeout", "gpu_fatal_timeout"),
    ),
    (122, "node", Domain.HOST_HARDWARE, ("pcie_fatal", "gpu_off_bus")),
    (113, "unknown", Domain.UNATTRIBUTED, ("nccl_timeout",)),
    (102, "bug", Domain.APPLICATION_CODE, ("python_exception",)),
    (78, "network", Domain.NETWORK_FABRIC, ("ib_link_down", "fabric_port_flapping")),
    (74, "maintenance", Domain.MAINTENANCE, ("node_rebooted",)),
    (48, "node", Domain.HOST_HARDWARE, ("memory_uncorrected", "nvme_lost", "power_supply_failed")),
    (39, "node", Domain.HOST_SOFTWARE, ("kernel_panic",)),
    (2, "unknown", Domain.STORAGE, ("storage_unreachable",)),
)


@dataclass(frozen=True)
class Fleet:
    """How large the fleet is and how its nodes hang together. Jobs take `used` of it, the rest runs small ones."""

    nodes: int = 10_000
    days: int = 90
    switch: int = 32
    rack: int = 8
    jobs: tuple[int, ...] = (2048, 1024, 1024, *[512] * 4, *[256] * 8, *[64] * 16, *[32] * 16)
    #: Of the faults of nodes and switches, those that are gone after a restart.
    transient: float = 0.73
    #: Of the faults of the network, those of a leaf switch and not of a node's card or cable.
    switches: float = 0.30
    #: By what the time until a fault that lasts comes again is multiplied.
    again: float = 1.0
    #: For how many hours the ways without a policy keep a node away; ours has it in its policies.
    keeps_away: float = 12.0


@dataclass(frozen=True)
class Verdicts:
    """How verdicts come out. The shares are of faults whose logs say something, `wrong` is of those that name a node.

    Weak and moderate ones are as often wrong as on incidents that the rules had not seen; none of those incidents had
    a strong verdict, so that rate is a guess: a fifth of the moderate ones', as these are a fifth of the weak ones'.
    """

    silent: float = 0.10
    strong: float = 0.65
    moderate: float = 0.25
    wrong: dict[Strength, float] = field(
        default_factory=lambda: {Strength.STRONG: 0.004, Strength.MODERATE: 0.02, Strength.WEAK: 0.10}
    )
    #: A shared element is seen as such in a single verdict, when three nodes or more of the job hang on it.
    shared: float = 0.85
    #: A user's bug or a fault without a trace is blamed on a node, strongly or less so.
    bug_blamed: dict[Strength, float] = field(
        default_factory=lambda: {Strength.STRONG: 0.001, Strength.MODERATE: 0.005, Strength.WEAK: 0.02}
    )


@dataclass(frozen=True)
class Fault:
    """Something that happens to a place: a node, the nodes of a switch, of an image, or a job's own code."""

    number: int
    at: float
    kind: str
    domain: Domain
    symptom: str
    places: tuple[int, ...]
    lasts: float  # hours until somebody repairs it of their own accord; 0: it goes away with a restart
    hangs: bool
    #: For faults of jobs: which share of the fleet's busy nodes comes before the job that it hits.
    where: float = 0.0


@dataclass(frozen=True)
class Said:
    """A verdict on a failed job: what the engine says, and which nodes really were at fault."""

    domain: Domain
    strength: Strength | None
    symptom: str
    nodes: tuple[int, ...]
    shared: str
    guilty: frozenset[int]


def faults(fleet: Fleet, seed: int) -> Iterator[Fault]:
    """All faults of a fleet's days, in their order."""
    chance = random.Random(f"faults {seed}")
    images = fleet.nodes / 10_000 / (IMAGE_DAYS * DAY)
    usual = fleet.nodes * RATE / DAY
    weights = [count for count, *_ in MIX]
    at, number = 0.0, 0
    while True:
        at += chance.expovariate(usual + images)
        if at >= fleet.days * DAY:
            return
        number += 1
        if chance.random() < images / (usual + images):
            first = chance.randrange(max(fleet.nodes - IMAGE_NODES, 1))
            places = tuple(range(first, min(first + IMAGE_NODES, fleet.nodes)))
            rolled_back = chance.expovariate(1 / 4)
            yield Fault(
                number, at, "image", Domain.HOST_SOFTWARE, "driver_library_mismatch", places, rolled_back, hangs=False
            )
            continue
        _, kind, domain, symptoms = chance.choices(MIX, weights)[0]
        place, where, hangs = chance.randrange(fleet.nodes), chance.random(), chance.random() < 1 / 3
        places, lasts = (place,), 0.0
        if kind == "network" and chance.random() < fleet.switches:
            kind, first = "switch", place - place % fleet.switch
            places = tuple(range(first, min(first + fleet.switch, fleet.nodes)))
        if kind in ("node", "network") and chance.random() >= fleet.transient:
            lasts = chance.expovariate(1 / 12)
        elif kind == "switch" and chance.random() >= fleet.transient:
            lasts = chance.expovariate(1 / 2)
        elif kind == "bug":
            lasts = chance.expovariate(1 / 3)
        elif kind == "maintenance":
            lasts = chance.uniform(2, 6)
        yield Fault(
            number,
            at,
            "node" if kind == "network" else kind,
            domain,
            chance.choice(symptoms),
            places,
            lasts,
            hangs,
            where,
        )


def verdict(
    fault: Fault, job: tuple[int, ...], rates: Verdicts, chance: random.Random, earlier: Said | None = None
) -> Said:
    """What the engine says of a job that a fault ended; `earlier` is what it said of the same fault the last time."""
    if earlier and _same_again(earlier, job, chance):
        return earlier
    mine = tuple(sorted(set(job) & set(fault.places)))
    unsaid = Said(Domain.UNATTRIBUTED, None, "", (), "", frozenset())
    if fault.kind == "maintenance":
        return Said(Domain.MAINTENANCE, Strength.STRONG, fault.symptom, (), "", frozenset(mine))
    if fault.kind in ("bug", "unknown"):
        return _without_place(fault, job, rates, chance, unsaid)
    if chance.random() < rates.silent:
        return unsaid
    strength = _strength(rates, chance)
    if fault.kind in ("switch", "image"):
        shared = f"{fault.kind} of {mine[0]}" if len(mine) >= 3 and chance.random() < rates.shared else ""
        # Whoever does not see what is shared sees some of the nodes that it took down, and holds these at fault.
        blamed = mine if shared else tuple(sorted(chance.sample(mine, min(len(mine), chance.randint(1, 2)))))
        return Said(fault.domain, strength, fault.symptom, blamed, shared, frozenset())
    guilty = frozenset(mine)
    if len(job) > 1 and chance.random() < rates.wrong[strength]:
        # The usual way to be wrong: the node that complains is blamed, not the one that it complains of.
        victim = chance.choice([node for node in job if node not in guilty])
        return Said(fault.domain, strength, fault.symptom, (victim,), "", guilty)
    return Said(fault.domain, strength, fault.symptom, mine, "", guilty)


def first_error(
    fault: Fault, job: tuple[int, ...], _rates: Verdicts, chance: random.Random, earlier: Said | None = None
) -> Said:
    """Who is blamed without an engine: the node that the earliest error comes from, as often right as measured.

    What it tells rightly, leaves open and tells wrongly was counted on incidents (`FIRST_ERROR`).
    """
    if earlier and _same_again(earlier, job, chance):
        return earlier
    mine = tuple(sorted(set(job) & set(fault.places)))
    guilty = frozenset(mine if fault.kind in ("node", "maintenance") else ())
    right, nothing, wrong = FIRST_ERROR
    draw = chance.random() * (right + nothing + wrong)
    others = [node for node in job if node not in mine]
    if draw < right:
        blamed = (chance.choice(mine),) if mine and fault.kind != "maintenance" else ()
    else:
        blamed = (chance.choice(others),) if draw < right + wrong and others else ()
    return Said(fault.domain, Strength.MODERATE, fault.symptom, blamed, "", guilty)


def _same_again(earlier: Said, job: tuple[int, ...], chance: random.Random) -> bool:
    """The same fault leaves the same lines, and these are read in the same way: as often as not, right or wrong."""
    return set(earlier.nodes) <= set(job) and chance.random() < SAME_AGAIN


def _without_place(fault: Fault, job: tuple[int, ...], rates: Verdicts, chance: random.Random, unsaid: Said) -> Said:
    draw = chance.random()
    for strength, share in rates.bug_blamed.items():
        if draw < share:
            symptom = chance.choice(BLAMED_FOR)
            return Said(Domain.GPU_HARDWARE, strength, symptom, (chance.choice(job),), "", frozenset())
        draw -= share
    if fault.kind == "bug":
        return Said(fault.domain, Strength.MODERATE, fault.symptom, (), "", frozenset())
    return unsaid


def _strength(rates: Verdicts, chance: random.Random) -> Strength:
    draw = chance.random()
    if draw < rates.strong:
        return Strength.STRONG
    return Strength.MODERATE if draw < rates.strong + rates.moderate else Strength.WEAK
