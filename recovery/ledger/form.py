"""What an address asks of the ledger, for page, API and export alike."""

import re
from collections import Counter
from functools import cached_property

from django.db.models import Q, QuerySet
from django.http import QueryDict

from recovery.ledger import words as ledger_words
from recovery.models import LedgerEntry
from recovery.words import EntryKind
from verdicts.listing.facets import LOOKED_AT, MOST_WORDS, Facet, Word
from verdicts.listing.form import ListForm, id_of

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


class LedgerForm(ListForm):
    """Entries, the newest first unless asked for the other way round."""

    labels = {
        "kind": "What",
        "actor": "Who",
        "subject": "About",
        "attempt": "Attempt",
        "after": "From",
        "before": "Before",
        "since_number": "After entry",
    }
    sets = {"kind": [(word.value, ledger_words.ENTRIES[word]) for word in EntryKind]}
    texts = ("actor", "subject", "attempt", "since_number")
    times = ("after", "before")
    orders = {"number": "-"}
    usual = "-number"

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query)
        #: Where the page begins; it filters nothing.
        self.cursor = self.value("cursor")
        self.data.pop("cursor", None)

    @cached_property
    def errors(self) -> dict[str, str]:
        """What in the address cannot be understood."""
        wrong = dict(super().errors)
        if (attempt := self.value("attempt")) and id_of(attempt) is None:
            wrong["attempt"] = f"Attempt: “{attempt}” is no attempt's id."
        if (since := self.value("since_number")) and not _NUMBER.fullmatch(since):
            wrong["since_number"] = f"After entry: “{since}” is no entry's number."
        return wrong

    @property
    def carried(self) -> list[tuple[str, str]]:
        """What the form has no control for."""
        since = self.value("since_number")
        return [*super().carried, *([("since_number", since)] if since else [])]

    @property
    def narrows(self) -> bool:
        """Whether anything is filtered."""
        return any(name in self.labels for name in self.data)

    def rows(self, *, without: str = "") -> QuerySet[LedgerEntry]:
        """The entries asked for, in no order; none where the address cannot be understood."""
        rows = LedgerEntry.objects.order_by()
        if self.errors:
            return rows.none()
        if (kinds := self.values("kind")) and without != "kind":
            rows = rows.filter(kind__in=kinds)
        if (actors := self.values("actor")) and without != "actor":
            who = Q()
            for actor in actors:
                who |= _by(actor)
            rows = rows.filter(who)
        if subject := self.value("subject"):
            rows = rows.filter(_about(subject))
        if attempt := self.value("attempt"):
            rows = rows.filter(attempt=id_of(attempt))
        if since := self.value("since_number"):
            rows = rows.filter(link__number__gt=int(since))
        if (after := self.moment("after")) is not None:
            rows = rows.filter(at__gte=after)
        if (before := self.moment("before")) is not None:
            rows = rows.filter(at__lt=before)
        return rows

    @cached_property
    def facets(self) -> list[tuple[Facet, bool]]:
        """What is told, and by whom, with counts over the newest that match; each is open."""
        if self.errors:
            return []
        found = [self._facet("kind", dict(ledger_words.ENTRIES))]
        found.append(self._facet("actor", {}))
        return [(facet, True) for facet in found if facet.words]

    @property
    def looked_at(self) -> int:
        """How many entries the counts are of, where more match; 0 where they are of all."""
        return LOOKED_AT if any(facet.at_least for facet, _ in self.facets) else 0

    def _facet(self, name: str, texts: dict[str, str]) -> Facet:
        newest = self.rows(without=name).order_by("-at").values_list(name, flat=True)[:LOOKED_AT]
        counted = Counter(newest)
        chosen = self.values(name)
        offered = [word for word, _ in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))]
        offered = (offered if texts else offered[:MOST_WORDS]) + [word for word in chosen if word not in counted]
        words = [Word(word, texts.get(word, word), counted[word], word in chosen) for word in offered]
        return Facet(name, self.labels[name], words, counted.total() >= LOOKED_AT)


def _by(actor: str) -> Q:
    """By whom: the whole word as it is stored, a kind with its colon ("user:"), or a bare name of any kind."""
    if actor.endswith(":"):
        return Q(actor__startswith=actor)
    if ":" in actor:
        return Q(actor=actor)
    return Q(actor__in=[f"user:{actor}", f"system:{actor}"]) | Q(actor__startswith=f"policy:{actor}@")


def _about(subject: str) -> Q:
    """About what: "proposal:ID", a kind alone ("proposal"), or an id alone."""
    kind, colon, name = subject.partition(":")
    if colon:
        return Q(subject_kind=kind, subject=name) if name else Q(subject_kind=kind)
    return Q(subject_kind=subject) | Q(subject=subject)
