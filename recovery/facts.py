"""The world as guards see it: plain values, read at one moment by `standing.py` or by a simulation."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from recovery.words import BrakeKind, VetoKind


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a plan may not go on: which guard, and its words. `clears` says that waiting can help."""

    guard: str
    said: str
    clears: bool = False


class BrakeNow(msgspec.Struct, frozen=True, kw_only=True):
    """A brake that is pulled on the plan's cluster or on all."""

    kind: BrakeKind
    reason: str
    clears_at: datetime | None = None


class VetoNow(msgspec.Struct, frozen=True, kw_only=True):
    """A standing veto that the plan touches."""

    kind: VetoKind
    value: str
    reason: str


class Away(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is kept away, or will be by an action under way. The plan's own is not among these."""

    node: str
    workload: str
    since: datetime


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """An action that was begun in the last day; `nodes` are those it took away."""

    at: datetime
    workload: str
    nodes: Sequence[str] = ()


class Restarted(msgspec.Struct, frozen=True, kw_only=True):
    """A restart of the workload by us; `progressed` is None where it is not known whether it passed the checkpoint."""

    at: datetime
    symptom: str
    locus: str
    progressed: bool | None


class WrongExclusion(msgspec.Struct, frozen=True, kw_only=True):
    """An exclusion after which the same symptom came again."""

    symptom: str
    workload: str
    node: str
    since: datetime


class Element(msgspec.Struct, frozen=True, kw_only=True):
    """A partition, rack, switch or the cluster that plan's nodes are in.

    `of` is how many nodes it has as far as is known, None where nothing is; `exact` that there are no others. `away`
    are those kept away now, `taken` the plan's, `down` those on which no job can start, whoever made them so.
    """

    kind: str
    name: str
    of: int | None
    away: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    down: frozenset[str] = frozenset()
    exact: bool = False


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """An open shared-cause incident that the plan's nodes or image belong to."""

    element: str
    name: str
    said: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The world as a guard needs it, read at one moment; None is "not known".

    `verdict_current` is None for a plan that rests on no verdict. `job_changed` says what became of the job since,
    `demoted` why its policy may not act by itself any more, `moving` how the job was seen to get on since, all in
    words. `failed_at` is when that happened which the plan answers. `alike` is how many exclusions were made on the
    cluster for the plan's symptom, for as long as wrong ones are remembered. `exclusion_ours` is for plans that give
    back: whether Inquest took what they give back.
    """

    now: datetime
    killed: str = ""
    brakes: Sequence[BrakeNow] = ()
    vetoes: Sequence[VetoNow] = ()
    verdict_current: bool | None = None
    verdict_sha256: str | None = None
    job_changed: str = ""
    demoted: str = ""
    moving: str = ""
    failed_at: datetime | None = None
    away: Sequence[Away] = ()
    took: Sequence[Took] = ()
    elements: Sequence[Element] = ()
    restarts: Sequence[Restarted] = ()
    wrong: Sequence[WrongExclusion] = ()
    alike: int = 0
    shared: Sequence[Shared] = ()
    exclusion_ours: bool = True
