"""What an address asks of the pages of the fleet, for page and API."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import QueryDict
from django.utils import timezone

from rules.words import Domain
from verdicts import wording
from verdicts.fleet.elements import COMPARED, KINDS
from verdicts.fleet.find import BLAMELESS, NodeRow, Span, blamed, latest_blames, unblamed
from verdicts.fleet.ports import latest_named
from verdicts.listing.form import ListForm
from verdicts.models import Cluster

DAYS = [("30", "30 days"), ("7", "7 days"), ("90", "90 days"), ("365", "a year")]
DOMAINS = [(word.value, wording.DOMAINS[word.value].text) for word in Domain if word.value not in BLAMELESS]


class SpanForm(ListForm):
    """A time that ends now or at a moment given, of all clusters or one."""

    labels: Mapping[str, str] = {"cluster": "Cluster", "days": "Time", "until": "Until"}
    choices: Mapping[str, list[tuple[str, str]]] = {"days": DAYS}
    times: tuple[str, ...] = ("until",)
    #: Since when it is counted, where that is later than was asked for.
    counted_since: datetime | None = None

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query)
        names = Cluster.objects.order_by("name").values_list("name", flat=True)
        clusters = [("", "all"), *((name, name) for name in names if name)]
        self.choices = {**self.choices, "cluster": clusters}

    @property
    def span(self) -> Span:
        """The time asked for, or so much of it as is counted."""
        before = self.moment("until") or timezone.now() + timedelta(seconds=1)
        days = self.value("days")
        after = before - timedelta(days=int(days if days in dict(DAYS) else DAYS[0][0]))
        return Span(self.counted_since or after, before)

    def count_since(self, at: datetime) -> None:
        """Let the time begin later, where there is more in it than is counted while a page waits."""
        if at > self.span.after:
            self.counted_since = at

    @property
    def earlier(self) -> str:
        """The address of as long a time before."""
        return self._until(self.span.after)

    @property
    def later(self) -> str:
        """The address of as long a time after; it ends now where that is not over yet."""
        span = self.span
        after = span.before + (span.before - span.after)
        return self._until(after) if after <= timezone.now() else self.address(without=("until", self.value("until")))

    def _until(self, moment: datetime) -> str:
        data = self.data.copy()
        data.pop("page", None)
        data["until"] = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return "?" + data.urlencode()

    @property
    def cluster(self) -> str:
        """The cluster asked for; empty for all."""
        return self.value("cluster")


class BlamedForm(SpanForm):
    """A time in which it is counted how often nodes were blamed: it begins later where that was too often."""

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query)
        if not self.errors:
            self.count_since(latest_blames(self.span, self.cluster))


class NodesForm(BlamedForm):
    """The list of nodes."""

    labels = {**SpanForm.labels, "text": "Node", "domain": "Domain", "symptom": "Symptom", "show": "Show"}
    sets = {"domain": DOMAINS}
    choices = {"show": [("blamed", "blamed nodes"), ("all", "all nodes")], **SpanForm.choices}
    texts = ("text", "symptom")
    orders = {"node": "", "cluster": "", "failures": "-", "workloads": "-", "last": "-"}
    usual = "-failures"

    def rows(self) -> list[NodeRow]:
        """The nodes asked for, in the order asked for."""
        if self.errors:
            return []
        rows = blamed(self.span, **self.narrowed)
        if self.value("show") == "all":
            rows += unblamed(rows, cluster=self.cluster)
        if wanted := self.value("text").casefold():
            rows = [row for row in rows if wanted in row.name.casefold()]
        name, down = self.order.removeprefix("-"), self.order.startswith("-")
        keys = {
            "node": lambda row: row.name,
            "cluster": lambda row: row.cluster,
            "failures": lambda row: row.failures,
            "workloads": lambda row: row.workloads,
            "last": lambda row: row.last.timestamp() if row.last else 0.0,
        }
        rows.sort(key=lambda row: (row.cluster, row.name))
        rows.sort(key=keys[name], reverse=down)
        return rows

    @property
    def narrows(self) -> bool:
        """Whether anything but the time is asked for."""
        return any(self.value(name) for name in ("text", "domain", "symptom", "cluster"))

    @property
    def narrowed(self) -> dict[str, Any]:
        """What narrows the verdicts that are counted."""
        return {"cluster": self.cluster, "domains": self.values("domain"), "symptom": self.value("symptom")}


class TopologyForm(BlamedForm):
    """What nodes share."""

    labels = {**SpanForm.labels, "kind": "Kind"}
    choices = {"kind": [("", "all"), *((kind, kind) for kind in KINDS)], **SpanForm.choices}


class PortsForm(SpanForm):
    """Switches and ports."""

    labels = {**SpanForm.labels, "text": "Switch or port", "owner": "Switch or node"}
    texts = ("text", "owner")

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query)
        if not self.errors and not self.value("owner"):  # of one owner they are few
            self.count_since(latest_named(self.span))


class PortForm(SpanForm):
    """One port."""

    labels = {**SpanForm.labels, "owner": "Switch or node", "port": "Port"}
    texts = ("owner", "port")


class ComparisonForm(SpanForm):
    """Attempts by what they have in common."""

    labels = {**SpanForm.labels, "by": "Compare by"}
    choices = {"by": [(by, name) for by, (name, _) in COMPARED.items()], **SpanForm.choices}

    @property
    def by(self) -> str:
        """The property to compare by."""
        return self.value("by") or "image"
