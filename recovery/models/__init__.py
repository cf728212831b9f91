"""Rows and constraints of recovery. No verbs: `decide.py` and its like write, `find.py` reads."""

from recovery.models.actions import Action, ActuatorState, Exclusion, Milestone
from recovery.models.drill import Drill, DrillCheck
from recovery.models.exports import ExportBatch, ExportedRecord
from recovery.models.ledger import Intake, LedgerCheckpoint, LedgerContent, LedgerEntry, LedgerLink
from recovery.models.policies import Policy, PolicyVersion, Promotion, Scope
from recovery.models.proposals import Brake, Case, Consideration, Decision, Incident, Proposal, Veto
from recovery.models.replay import CandidateRuleset, Replay, ReplayChunk, ReplayItem
from recovery.models.retention import Hold
from recovery.models.signals import (
    Anomaly,
    Blindness,
    ProgressFeed,
    ProgressReading,
    ProgressSample,
    RankProgress,
)

__all__ = [
    "Action",
    "ActuatorState",
    "Anomaly",
    "Blindness",
    "Brake",
    "CandidateRuleset",
    "Case",
    "Consideration",
    "Decision",
    "Drill",
    "DrillCheck",
    "Exclusion",
    "ExportBatch",
    "ExportedRecord",
    "Hold",
    "Incident",
    "Intake",
    "LedgerCheckpoint",
    "LedgerContent",
    "LedgerEntry",
    "LedgerLink",
    "Milestone",
    "Policy",
    "PolicyVersion",
    "ProgressFeed",
    "ProgressReading",
    "ProgressSample",
    "Promotion",
    "Proposal",
    "RankProgress",
    "Replay",
    "ReplayChunk",
    "ReplayItem",
    "Scope",
    "Veto",
]
