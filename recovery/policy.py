"""What a policy says, and whether it is about a case. Pure: the same case and rule give the same answer."""

import re
from collections.abc import Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec

from recovery.caps import Caps
from recovery.words import EXCLUDING, ActionKind, PolicyMode
from rules.words import Domain, Maturity, State, Strength

#: How far back a node's earlier faults speak of it.
BLAMED_WITHIN = timedelta(days=7)
#: Where the fault can be a node's, so that leaving the node out can help.
NODE_DOMAINS = frozenset(
    {
        Domain.GPU_HARDWARE,
        Domain.NVLINK_FABRIC,
        Domain.NETWORK_FABRIC,
        Domain.HOST_HARDWARE,
        Domain.HOST_SOFTWARE,
        Domain.STORAGE,
    }
)
#: Verdicts that hold nobody at fault: a node is never taken away for one.
UNDECIDED = frozenset({Domain.AMBIGUOUS, Domain.UNATTRIBUTED})
#: Ends that somebody wanted, or that nothing is wrong with: they are no failures to recover from.
WANTED_ENDS = frozenset({State.SUCCEEDED, State.CANCELLED, State.PREEMPTED})
RESTARTS = frozenset({ActionKind.RESTART, ActionKind.RESTART_EXCLUDING})
#: What ends or keeps from running what may be at work.
DISTURBING = RESTARTS | {ActionKind.STOP, ActionKind.HOLD}

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which cases a policy is about: empty lists mean any. Names are patterns of the shell ("h100-*", "gpu_*").

    `opt_in`: only jobs that ask for the action themselves (see `opted`). `blamed_before`: only nodes that so many other
    failed attempts of the last days were blamed on too: most faults go away with a restart, and what comes back on the
    same node does not.
    """

    clusters: list[Pattern] = []
    partitions: list[Pattern] = []
    domains: list[Domain] = []
    symptoms: list[Pattern] = []
    strengths: list[Strength] = msgspec.field(default_factory=lambda: [Strength.STRONG])
    opt_in: bool = False
    blamed_before: Annotated[int, msgspec.Meta(ge=0, le=20)] = 0


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a policy's version: which cases, which action, inside which caps.

    `waits_minutes`: for how long a proposal to leave nodes out waits for a person or a guard, before the job is
    restarted on all its nodes instead, where another policy may do that by itself; None: as long as it is good.
    `label_share` is the share of its proposals that must get a label afterwards, `sample_share` the share of its
    automatic actions that a person looks at afterwards; both are drawn when the proposal is made.
    """

    match: Match = Match()
    action: ActionKind
    caps: Caps = Caps()
    expires_minutes: Annotated[int, msgspec.Meta(ge=1, le=24 * 60)] = 60
    waits_minutes: Annotated[int, msgspec.Meta(ge=1, le=24 * 60)] | None = None
    approvals: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    exclusion_hours: Annotated[int, msgspec.Meta(ge=1, le=24 * 30)] = 24
    label_share: Share = 0.25
    sample_share: Share = 0.1


class OptIn(msgspec.Struct, frozen=True, kw_only=True):
    """What a job says of itself: which actions it allows (None: it names none), how many restarts without progress."""

    actions: frozenset[ActionKind] | None = None
    max_restarts: int | None = None
    off: bool = False
    drill: bool = False


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy looks at. `symptom` is the first cause's, `maturity` the least of all its causes' rules.

    `nodes` are those the verdict holds at fault; `shared` says what they share where the verdict found that.
    `opt_read` is False where what the job says of itself could not be read: its "off" would not be known.
    `blamed_before` is how many other attempts of the last days were blamed on each of the nodes, at least.
    """

    cluster: str
    partition: str
    state: State
    domain: Domain
    strength: Strength | None
    symptom: str
    symptoms: Sequence[str] = ()
    maturity: Maturity | None = None
    nodes: Sequence[str] = ()
    shared: str = ""
    opt_in: OptIn | None = None
    opt_read: bool = True
    blamed_before: int = 0


_WORDS = {
    "restart": {ActionKind.RESTART},
    "exclude": {ActionKind.RESTART_EXCLUDING},
    "stop": {ActionKind.STOP},
    "hold": {ActionKind.HOLD},
    "notify": {ActionKind.NOTIFY},
    "all": {
        ActionKind.RESTART,
        ActionKind.RESTART_EXCLUDING,
        ActionKind.STOP,
        ActionKind.HOLD,
        ActionKind.NOTIFY,
    },
}
_OPT_IN = re.compile(r"(?:^|[\s;|])inquest=([^\s;|]+)", re.IGNORECASE)


def opted(text: str) -> OptIn | None:
    """What a job's comment or annotation says: "inquest=restart,exclude,max=3", "inquest=off"; None without the word.

    `restart`, `exclude` (restart without the blamed nodes), `stop`, `hold`, `notify`, `all`; `max=N` bounds restarts
    without progress; `drill` says that faults are planted, so that its cases are counted apart. An unknown word
    allows nothing. Where the word is there twice, the stricter counts: who can append to a comment must not be able to
    widen it.
    """
    found = [_one(words) for words in _OPT_IN.findall(text)]
    if not found:
        return None
    limits = [one.max_restarts for one in found if one.max_restarts is not None]
    named = [one.actions for one in found if one.actions is not None]
    return OptIn(
        actions=frozenset.intersection(*named) if named else None,
        max_restarts=min(limits, default=None),
        off=any(one.off for one in found),
        drill=any(one.drill for one in found),
    )


def _one(words: str) -> OptIn:
    actions: set[ActionKind] | None = None
    most: int | None = None
    off = drill = False
    for word in re.split("[,+]", words.lower()):
        name, _, value = word.partition("=")
        if name == "max" and value.isdigit() and len(value) <= 4:
            most = int(value)
        elif name == "off" or (name in ("none", "no") and not value):
            off = True
        elif name == "drill":
            drill = True
        elif name:
            actions = (actions or set()) | _WORDS.get(name, set())
    return OptIn(actions=None if actions is None else frozenset(actions), max_restarts=most, off=off, drill=drill)


def matches(rule: Rule, case: Case) -> tuple[bool, str]:
    """Whether a policy is about a case, and why or why not in words."""
    match = rule.match
    wrong_place = _place(match, case)
    if wrong_place:
        return False, wrong_place
    if match.domains and case.domain not in match.domains:
        return False, f"the verdict's domain is {case.domain}"
    symptoms = list(case.symptoms) or [case.symptom]
    if match.symptoms and not any(fnmatchcase(name, pattern) for name in symptoms for pattern in match.symptoms):
        return False, f"none of its symptoms is {' or '.join(match.symptoms)}"
    if case.strength not in match.strengths and case.strength is not None:
        return False, f"the verdict's strength is {case.strength}"
    if case.strength is None and case.domain not in UNDECIDED:
        return False, "the verdict states no strength"
    if case.blamed_before < match.blamed_before:
        said = f"{case.blamed_before} other attempts were blamed on its nodes, and {match.blamed_before} are asked for"
        return False, said
    why_not = forbidden(rule.action, case)
    if why_not:
        return False, why_not
    if match.opt_in and (case.opt_in is None or rule.action not in (case.opt_in.actions or ())):
        return False, f"the job does not ask for {rule.action} in its comment or annotation"
    return True, _because(case)


def forbidden(action: ActionKind, case: Case) -> str:
    """Why no policy whatever may lead to this action for such a case; empty if one may."""
    if case.maturity is Maturity.DRAFT:
        return "the verdict rests on a draft rule, which is shown and never acted on"
    if case.state in WANTED_ENDS:
        return f"the attempt was {case.state}: that is no failure to recover from"
    if case.domain is Domain.NO_FAILURE:
        return "the verdict is that nothing failed"
    if case.state is State.RUNNING and action in DISTURBING:
        return "the attempt still runs, and no hang of it was detected"
    if case.domain is Domain.USER_ACTION and action is not ActionKind.NOTIFY:
        return "a person ended it: it is left to that person"
    if action in EXCLUDING:
        if case.domain in UNDECIDED:
            return f"the verdict is {case.domain}: no node is taken away for it"
        if case.domain not in NODE_DOMAINS:
            return f"a fault of {case.domain} is no node's: another node has it too"
        if case.shared:
            return f"the nodes share {case.shared}: leaving them out is not the remedy"
        if not case.nodes:
            return "the verdict names no node"
    if case.opt_in is not None:
        if case.opt_in.off:
            return "the job says inquest=off"
        if case.opt_in.actions is not None and action not in case.opt_in.actions:
            return f"the job allows other actions than {action}"
        if action in RESTARTS and case.opt_in.max_restarts == 0:
            return "the job says max=0: no restarts"
    return ""


def capped_mode(mode: PolicyMode, case: Case) -> tuple[PolicyMode, str]:
    """The mode as far as the case allows it: a rule on trial may propose and never acts by itself."""
    if mode is PolicyMode.AUTOMATIC and case.maturity is not Maturity.STABLE:
        return PolicyMode.ADVISORY, "its rule is on trial: a person decides"
    if mode is PolicyMode.AUTOMATIC and case.state is State.UNKNOWN:
        return PolicyMode.ADVISORY, "how the attempt ended is not known: a person decides"
    if mode is PolicyMode.AUTOMATIC and not case.opt_read:
        return PolicyMode.ADVISORY, "whether the job said inquest=off could not be read: a person decides"
    if mode is PolicyMode.AUTOMATIC and case.domain in UNDECIDED:
        return PolicyMode.ADVISORY, f"the verdict is {case.domain}: a person decides"
    return mode, ""


def _place(match: Match, case: Case) -> str:
    """Why the case lies elsewhere; empty if it does not."""
    if match.clusters and not any(fnmatchcase(case.cluster, pattern) for pattern in match.clusters):
        return f"the cluster is {case.cluster or 'not said'}"
    # A job may have been sent to several partitions at once ("a,b"): all must be meant.
    parts = [part for part in case.partition.split(",") if part] or [""]
    if match.partitions and not all(any(fnmatchcase(part, one) for one in match.partitions) for part in parts):
        return f"the partition is {case.partition or 'not said'}"
    return ""


def _because(case: Case) -> str:
    strength = f", {case.strength}" if case.strength else ""
    return f"{case.domain}{strength}: {case.symptom or 'no symptom named'}"
