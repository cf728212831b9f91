"""How far back counting goes: a page counts so many of the latest attempts at most, and says since when."""

from datetime import datetime

from verdicts.models import ListRow
from verdicts.own import own

#: What is counted at most while a page waits: by rule, by unrecognised line. Half a second of a busy store.
MOST_ATTEMPTS = 20_000


def since_latest(after: datetime | None, before: datetime | None = None) -> datetime | None:
    """From when on a time has at most so many of this site's standing rows; `after` where it has no more.

    Of the list's rows, so that an index alone answers it.
    """
    rows = ListRow.objects.filter(own(), is_current=True)
    if after is not None:
        rows = rows.filter(happened_at__gte=after)
    if before is not None:
        rows = rows.filter(happened_at__lt=before)
    times = rows.order_by("-happened_at", "-id").values_list("happened_at", flat=True)
    last_two = list(times[MOST_ATTEMPTS - 1 : MOST_ATTEMPTS + 1])
    return last_two[0] if len(last_two) == 2 else after
