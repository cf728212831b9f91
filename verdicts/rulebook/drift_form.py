"""What may be asked about drift: how long the windows are, and when the later one ends."""

from datetime import datetime

from verdicts.listing.form import ListForm
from verdicts.rulebook import drift

_DAYS = (drift.DAYS, 1, 14, 30, 90)


class DriftForm(ListForm):
    """Two windows of equal length, the later one up to now unless said otherwise."""

    labels = {"days": "Length of each time", "until": "Until"}
    choices = {"days": [(str(days), f"{days} day{'s' if days > 1 else ''}") for days in _DAYS]}
    times = ("until",)

    @property
    def days(self) -> int:
        """The length of each window."""
        return int(self.value("days") or drift.DAYS)

    @property
    def until(self) -> datetime | None:
        """The end of the later window; None for now."""
        return self.moment("until")
