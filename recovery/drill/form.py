"""The filters of the list of drills, for page and API alike."""

from django.db.models import QuerySet

from recovery.drill import find
from recovery.drill.words import STATES
from recovery.models import Drill
from verdicts.listing.form import ListForm, id_of

VIA = {"schedule": "the schedule", "console": "a page", "api": "the API", "command-line": "the command"}


class DrillForm(ListForm):
    """What a list of drills may be narrowed by."""

    labels = {
        "state": "Outcome",
        "via": "Asked for by",
        "attempt": "Attempt",
        "after": "Asked from",
        "before": "Asked before",
    }
    sets = {"state": [(word, look.text) for word, look in STATES.items()], "via": list(VIA.items())}
    texts = ("attempt",)
    times = ("after", "before")

    @property
    def narrows(self) -> bool:
        """Whether anything is filtered."""
        return any(name in self.data for name in self.labels)

    def rows(self) -> QuerySet[Drill]:
        """The drills that match, the newest first; none where the address is not understood."""
        found = find.drills()
        if self.errors:
            return found.none()
        for name in self.sets:
            if values := self.values(name):
                found = found.filter(**{f"{name}__in": values})
        if text := self.value("attempt"):
            pk = id_of(text)
            found = found.filter(attempt=pk) if pk else found.filter(job_id=text)
        if (after := self.moment("after")) is not None:
            found = found.filter(asked_at__gte=after)
        if (before := self.moment("before")) is not None:
            found = found.filter(asked_at__lt=before)
        return found
