"""What an address asks of the list of proposals, for page and API alike."""

from django.db.models import Q, QuerySet
from django.http import QueryDict

from recovery import find, wording
from recovery.models import Proposal
from recovery.words import ActionKind, Outcome, PolicyMode, ProposalState
from rules.words import Domain
from verdicts import wording as verdict_wording
from verdicts.listing.form import ListForm, id_of
from verdicts.models import Cluster

WAITING, GOING, ALL = "waiting", "going", "all"


class QueueForm(ListForm):
    """Proposals: by default those that wait for a decision, the one that expires first on top."""

    labels = {
        "show": "Show",
        "state": "State",
        "action": "Action",
        "mode": "Mode",
        "domain": "Domain",
        "outcome": "What came of it",
        "cluster": "Cluster",
        "text": "Workload or job",
        "node": "Node",
        "policy": "Policy",
        "incident": "Incident",
        "attempt": "Attempt",
        "after": "Made after",
        "before": "Made before",
    }
    sets = {
        "state": [(word.value, wording.PROPOSALS[word].text) for word in ProposalState],
        "action": [(word.value, wording.ACTIONS[word]) for word in ActionKind],
        "mode": [(word.value, wording.MODES[word].text) for word in PolicyMode],
        "domain": [(word.value, verdict_wording.DOMAINS[word].text) for word in Domain],
        "outcome": [(word.value, wording.OUTCOMES[word].text) for word in Outcome],
    }
    choices = {"show": [(WAITING, "what waits for a decision"), (GOING, "what is being carried out"), (ALL, "all")]}
    texts = ("text", "node", "policy", "attempt", "incident")
    times = ("after", "before")
    orders = {"expires": "", "made": "-", "cluster": "", "action": ""}
    usual = "expires"

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query)
        names = Cluster.objects.order_by("name").values_list("name", flat=True)
        self.choices = {**self.choices, "cluster": [("", "all"), *((name, name) for name in names if name)]}

    @property
    def errors(self) -> dict[str, str]:
        """What cannot be understood; attempts and incidents are named by their ids."""
        wrong = dict(super().errors)
        for name in ("attempt", "incident"):
            if (text := self.value(name)) and id_of(text) is None:
                wrong[name] = f"{self.labels[name]}: “{text}” is no id."
        return wrong

    @property
    def shows(self) -> str:
        """What is asked for: a state that is named shows what has it, whatever else is usual."""
        return self.value("show") or (ALL if self.values("state") or self.value("attempt") else WAITING)

    @property
    def narrows(self) -> bool:
        """Whether anything but what is usual is asked for."""
        return any(name not in ("show", "order", "page", "limit", "offset", "format") for name in self.data)

    def rows(self) -> QuerySet[Proposal]:
        """The proposals asked for, in the order asked for; none where the address cannot be understood."""
        rows = find.proposals()
        if self.errors:
            return rows.none()
        if self.shows == WAITING:
            rows = rows.filter(state=ProposalState.OPEN.value)
        elif self.shows == GOING:
            rows = rows.filter(state__in=[state.value for state in find.GOING_ON])
        for name, field in (("state", "state"), ("action", "action"), ("mode", "mode"), ("outcome", "outcome")):
            if values := self.values(name):
                rows = rows.filter(**{f"{field}__in": values})
        if domains := self.values("domain"):
            rows = rows.filter(verdict__domain__in=domains)
        for name, field in (
            ("cluster", "attempt__cluster__name"),
            ("policy", "version__policy__name"),
        ):
            if value := self.value(name):
                rows = rows.filter(**{field: value})
        if text := self.value("text"):
            rows = rows.filter(Q(attempt__workload__name__icontains=text) | Q(attempt__job_id=text))
        if node := self.value("node"):
            rows = rows.filter(nodes__contains=[node])
        for name, field in (("attempt", "attempt_id"), ("incident", "incident_id")):
            if value := self.value(name):
                rows = rows.filter(**{field: id_of(value)})
        if (after := self.moment("after")) is not None:
            rows = rows.filter(created_at__gte=after)
        if (before := self.moment("before")) is not None:
            rows = rows.filter(created_at__lt=before)
        down = "-" if self.order.startswith("-") else ""
        columns = {
            "expires": "expires_at",
            "made": "created_at",
            "cluster": "attempt__cluster__name",
            "action": "action",
        }
        return rows.order_by(f"{down}{columns[self.order.removeprefix('-')]}", "-created_at", "id")
