"""A policy's body as the text that people write: TOML, as rules are, with every field explained where it is started."""

import tomllib
from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from recovery import wording
from recovery.models import Proposal, Scope
from recovery.policies import find, labels
from recovery.policies.diff import normal
from recovery.review.guard_forms import OfCluster
from recovery.words import CaseLabel, LabelBasis, Outcome, PolicyMode
from rules.attempt import InputError
from rules.words import Domain
from verdicts import wording as verdict_wording
from verdicts.listing.form import ListForm
from verdicts.storable import storable_text

LONGEST = 20_000
START = """\
# What is done about the cases that match: restart, restart_excluding, stop, hold, notify or drain.
action = "restart_excluding"
expires_minutes = 60     # a proposal that nobody decided is over then
approvals = 1            # people who must approve; two for many nodes, whatever stands here
exclusion_hours = 24     # how long a node is kept away
# waits_minutes = 5      # undecided for so long, the job is restarted on all its nodes, if another policy may do that
label_share = 0.25       # share of its proposals that must get a label; missing ones count as wrong
sample_share = 0.1       # share of its automatic actions that a person looks at afterwards

# Which cases: an empty list means any. Names are patterns ("h100-*", "gpu_uncorrectable_*").
[match]
clusters = []
partitions = []
domains = ["gpu_hardware"]
symptoms = []
strengths = ["strong"]
opt_in = false           # only jobs that say inquest=exclude in their comment or annotation
blamed_before = 0        # only nodes that so many other attempts of the last 7 days were blamed on too

# Its limits; what is left out has its default.
[caps]
nodes_per_action = 1
nodes_per_day = 4
"""


def body_of(text: str) -> dict[str, Any]:
    """The TOML as plain data. Raises InputError that names the line."""
    if len(text) > LONGEST:
        raise InputError(f"rule: at most {LONGEST} characters")
    try:
        return tomllib.loads(storable_text(text).replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        said = "nested without end" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"rule: this is no TOML: {said}") from error


def text_of(body: Mapping[str, Any]) -> str:
    """A body as TOML with every field spelled out; one that is not set has no line, for TOML has no word for that."""
    whole = {key: value for key, value in normal(body).items() if value is not None}
    lines = [f"{key} = {_value(value)}" for key, value in whole.items() if not isinstance(value, Mapping)]
    for table, fields in whole.items():
        if isinstance(fields, Mapping):
            lines += ["", f"[{table}]", *(f"{key} = {_value(value)}" for key, value in fields.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(f"\\u{ord(one):04X}" if ord(one) < 32 else one for one in escaped) + '"'


class LabelsForm(OfCluster):
    """Cases that wait for a label; those that are due first come first."""

    labels = {**OfCluster.labels, "show": "Show", "policy": "Policy", "node": "Node"}
    choices = {
        "show": [
            ("awaiting", "cases that must get a label"),
            ("sampled", "automatic actions drawn for a look"),
        ]
    }
    texts = ("policy", "node")

    def rows(self) -> QuerySet[Proposal]:
        """The proposals asked for; none where the address cannot be understood."""
        rows = labels.sampled() if self.value("show") == "sampled" else labels.awaiting()
        if self.errors:
            return rows.none()
        if value := self.value("cluster"):
            rows = rows.filter(attempt__cluster__name=value)
        if value := self.value("policy"):
            rows = rows.filter(version__policy__name=value)
        if value := self.value("node"):
            rows = rows.filter(nodes__contains=[value])
        return rows


def case_label(text: str) -> CaseLabel:
    """A label by its word. Raises InputError."""
    if text not in set(CaseLabel):
        raise InputError(f"label: one of {', '.join(CaseLabel)}")
    return CaseLabel(text)


def basis(text: str) -> LabelBasis:
    """What a label rests on, by its word. Raises InputError."""
    if text not in set(LabelBasis):
        raise InputError(f"basis: one of {', '.join(LabelBasis)}; that an approver agreed is none")
    return LabelBasis(text)


def outcome(text: str) -> Outcome:
    """An outcome by its word. Raises InputError."""
    if text not in set(Outcome):
        raise InputError(f"outcome: one of {', '.join(Outcome)}")
    return Outcome(text)


LABEL_WORDS = [(word.value, wording.LABELS[word].text) for word in CaseLabel]
BASIS_WORDS = [(word.value, wording.BASES[word]) for word in LabelBasis]
OUTCOME_WORDS = [(word.value, wording.OUTCOMES[word].text) for word in Outcome]


class ScopesForm(ListForm):
    """Where policies apply, with their modes."""

    labels = {"policy": "Policy", "cluster": "Cluster", "domain": "Domain", "mode": "Mode"}
    texts = ("policy", "cluster")
    sets = {
        "domain": [(word.value, verdict_wording.DOMAINS[word].text) for word in Domain],
        "mode": [(word.value, wording.MODES[word].text) for word in PolicyMode],
    }

    def rows(self) -> QuerySet[Scope]:
        """The scopes asked for, by policy, cluster and domain."""
        rows = Scope.objects.select_related("policy").prefetch_related("policy__versions", find.with_promotions())
        for name, column in (("policy", "policy__name"), ("cluster", "cluster")):
            if value := self.value(name):
                rows = rows.filter(**{column: value})
        for name in self.sets:
            if values := self.values(name):
                rows = rows.filter(**{f"{name}__in": values})
        return rows.order_by("policy__name", "cluster", "domain")
