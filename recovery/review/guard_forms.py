"""What an address asks of the lists of exclusions, shared causes and vetoes, for page and API alike."""

from collections.abc import Mapping

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.http import QueryDict

from recovery import find, wording
from recovery.models import Brake, Exclusion, Incident, Veto
from recovery.words import ExclusionKind, ExclusionState
from verdicts.listing.form import ListForm
from verdicts.models import Cluster

KINDS = {ExclusionKind.JOB: "from its job", ExclusionKind.NODE: "from everybody"}


class OfCluster(ListForm):
    """A list of one cluster or of all."""

    labels: Mapping[str, str] = {"cluster": "Cluster"}

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query)
        names = Cluster.objects.order_by("name").values_list("name", flat=True)
        self.choices = {**self.choices, "cluster": [("", "all"), *((name, name) for name in names if name)]}

    @property
    def narrows(self) -> bool:
        """Whether anything but what is usual is asked for."""
        return any(name not in ("show", "order", "page", "limit", "offset", "format") for name in self.data)


class ExclusionsForm(OfCluster):
    """Exclusions: by default those that stand."""

    labels = {**OfCluster.labels, "show": "Show", "state": "State", "kind": "Kept away", "node": "Node"}
    labels |= {"symptom": "Symptom", "wrong": "Right or wrong"}
    sets = {
        "state": [(word.value, wording.EXCLUSIONS[word].text) for word in ExclusionState],
        "kind": [(word.value, KINDS[word]) for word in ExclusionKind],
    }
    choices = {
        "show": [("standing", "those that stand"), ("all", "all")],
        "wrong": [("", "all"), ("wrong", "found to be wrong")],
    }
    texts = ("node", "symptom")
    orders = {"node": "", "made": "-", "expires": ""}
    usual = "-made"

    def rows(self) -> QuerySet[Exclusion]:
        """The exclusions asked for; none where the address cannot be understood."""
        rows = find.exclusions()
        if self.errors:
            return rows.none()
        if not self.values("state") and self.value("show") != "all":
            rows = rows.filter(state=ExclusionState.STANDING.value)
        for name in self.sets:
            if values := self.values(name):
                rows = rows.filter(**{f"{name}__in": values})
        if self.value("wrong"):
            rows = rows.filter(wrong_since__isnull=False)
        for name, field in (("cluster", "cluster__name"), ("node", "node"), ("symptom", "symptom")):
            if value := self.value(name):
                rows = rows.filter(**{field: value})
        down = "-" if self.order.startswith("-") else ""
        columns = {"node": "node", "made": "made_at", "expires": "expires_at"}
        return rows.order_by(f"{down}{columns[self.order.removeprefix('-')]}", "id")


class IncidentsForm(OfCluster):
    """Shared causes: by default those that are open."""

    labels = {**OfCluster.labels, "show": "Show", "element": "Shared", "value": "Its name"}
    choices = {"show": [("open", "open ones"), ("all", "all")]}
    texts = ("element", "value")

    def rows(self) -> QuerySet[Incident]:
        """The incidents asked for, newest first; none where the address cannot be understood."""
        rows = Incident.objects.select_related("cluster")
        if self.errors:
            return rows.none()
        if self.value("show") != "all":
            rows = rows.filter(closed_at__isnull=True)
        for name, field in (("cluster", "cluster__name"), ("element", "element"), ("value", "value")):
            if value := self.value(name):
                rows = rows.filter(**{field: value})
        return rows.order_by("-opened_at", "id")


class VetoesForm(OfCluster):
    """Vetoes: by default those that stand."""

    labels = {**OfCluster.labels, "show": "Show", "value": "Node, job or element"}
    choices = {"show": [("standing", "those that stand"), ("all", "all")]}
    texts = ("value",)

    def rows(self) -> QuerySet[Veto]:
        """The vetoes asked for, newest first; none where the address cannot be understood."""
        rows = Veto.objects.select_related("cluster", "by", "ended_by")
        if self.errors:
            return rows.none()
        if self.value("show") != "all":
            rows = rows.filter(ended_at__isnull=True)
        if cluster := self.value("cluster"):
            rows = rows.filter(cluster__name=cluster)
        if value := self.value("value"):
            rows = rows.filter(value=value)
        return rows.order_by("-set_at", "id")


def brakes_pulled() -> QuerySet[Brake]:
    """The brakes that are pulled now: a pace brake whose time is over holds nothing any more."""
    over = Q(clears_at__isnull=False, clears_at__lte=Now())
    return Brake.objects.filter(~over, released_at__isnull=True).select_related("cluster", "opened_by")


def brakes_before() -> QuerySet[Brake]:
    """The brakes that were pulled once, newest first."""
    return (
        Brake.objects.filter(Q(released_at__isnull=False))
        .select_related("cluster", "opened_by", "released_by")
        .order_by(F("released_at").desc(), "id")
    )
