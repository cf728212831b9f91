"""What an address asks of the list of anomalies, for page and API alike."""

from collections.abc import Mapping

from django.db.models import Q, QuerySet
from django.http import QueryDict

from recovery.models import Anomaly
from recovery.progress.find import anomalies
from recovery.words import AnomalyKind
from verdicts.listing.form import ListForm, id_of
from verdicts.models import Cluster

KINDS: Mapping[str, str] = {AnomalyKind.CRASH: "Crash", AnomalyKind.HANG: "Hang", AnomalyKind.STRAGGLER: "Straggler"}


class AnomaliesForm(ListForm):
    """Anomalies: by default all, the newest first."""

    labels: Mapping[str, str] = {
        "show": "Show",
        "kind": "Kind",
        "cluster": "Cluster",
        "text": "Workload or job",
        "node": "Node",
        "attempt": "Attempt",
        "after": "Detected after",
        "before": "Detected before",
    }
    sets: Mapping[str, list[tuple[str, str]]] = {"kind": list(KINDS.items())}
    choices: Mapping[str, list[tuple[str, str]]] = {"show": [("all", "all"), ("open", "those that go on")]}
    texts = ("text", "node", "attempt")
    times = ("after", "before")
    orders: Mapping[str, str] = {"detected": "-", "event": "-"}
    usual = "-detected"

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query)
        names = Cluster.objects.order_by("name").values_list("name", flat=True)
        self.choices = {**self.choices, "cluster": [("", "all"), *((name, name) for name in names if name)]}

    @property
    def narrows(self) -> bool:
        """Whether anything but an order is asked for."""
        return bool(self.chips)

    @property
    def errors(self) -> dict[str, str]:
        """What cannot be understood; an attempt is named by its id."""
        wrong = dict(super().errors)
        if (text := self.value("attempt")) and id_of(text) is None:
            wrong["attempt"] = f"Attempt: “{text}” is no id."
        return wrong

    def rows(self) -> QuerySet[Anomaly]:
        """The anomalies asked for; none where the address cannot be understood."""
        rows = anomalies()
        if self.errors:
            return rows.none()
        if self.value("show") == "open":
            rows = rows.filter(ended_at__isnull=True)
        if kinds := self.values("kind"):
            rows = rows.filter(kind__in=kinds)
        if cluster := self.value("cluster"):
            rows = rows.filter(attempt__cluster__name=cluster)
        if text := self.value("text"):
            rows = rows.filter(Q(attempt__workload__name__icontains=text) | Q(attempt__job_id=text))
        if node := self.value("node"):
            rows = rows.filter(nodes__contains=[node])
        if attempt := self.value("attempt"):
            rows = rows.filter(attempt=id_of(attempt))
        if (after := self.moment("after")) is not None:
            rows = rows.filter(detected_at__gte=after)
        if (before := self.moment("before")) is not None:
            rows = rows.filter(detected_at__lt=before)
        down = "-" if self.order.startswith("-") else ""
        column = {"detected": "detected_at", "event": "event_at"}[self.order.removeprefix("-")]
        return rows.order_by(f"{down}{column}", "id")
