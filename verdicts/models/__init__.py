"""Rows and constraints of the verdict store. No verbs: `record.py` writes, `find.py` reads."""

from verdicts.models.attempts import Attempt, Batch, Cluster, CollectorReport, Node, Observation, Workload
from verdicts.models.collection import Collection, CollectionTask, Discovery, SourceState
from verdicts.models.expiry import Tombstone
from verdicts.models.imported import ImportedRecord
from verdicts.models.judgements import Finding, Review, RulesetText, RulesetVersion, UnrecognisedLine, Verdict
from verdicts.models.listing import Blame, ListRow, WeekTally
from verdicts.models.ports import NamedPort
from verdicts.models.reading import EvidenceRead
from verdicts.models.talk import Comment, Mention
from verdicts.models.telling import Delivery, Subscription
from verdicts.models.views import Preference, SavedView
from verdicts.models.work import AttributionRequest, DriftCheck

__all__ = [
    "Attempt",
    "AttributionRequest",
    "Batch",
    "Blame",
    "Cluster",
    "Collection",
    "CollectionTask",
    "CollectorReport",
    "Comment",
    "Delivery",
    "Discovery",
    "DriftCheck",
    "EvidenceRead",
    "Finding",
    "ImportedRecord",
    "ListRow",
    "Mention",
    "NamedPort",
    "Node",
    "Observation",
    "Preference",
    "Review",
    "RulesetText",
    "RulesetVersion",
    "SavedView",
    "SourceState",
    "Subscription",
    "Tombstone",
    "UnrecognisedLine",
    "Verdict",
    "WeekTally",
    "Workload",
]
