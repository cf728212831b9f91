"""Who may do what in recovery. Groups hold the permissions (migration 0002); pages and API ask the names here."""

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from verdicts.permissions import READ, SAFE_METHODS

DECIDE = "recovery.decide_proposal"
PROPOSE = "recovery.make_proposal"
LABEL = "recovery.label_proposal"
LIFT = "recovery.lift_exclusion"
VETO = "recovery.set_veto"
PULL_BRAKE = "recovery.pull_brake"
RELEASE_BRAKE = "recovery.release_brake"
WRITE_POLICY = "recovery.change_policy"
PROMOTE = "recovery.promote_policy"
DEMOTE = "recovery.demote_policy"
POST_PROGRESS = "recovery.post_progress"
EXPORT_LEDGER = "recovery.export_ledger"
START_REPLAY = "recovery.start_replay"
JUDGE_REPLAY = "recovery.judge_replay"
RUN_DRILL = "recovery.run_drill"
START_REPLAY = "recovery.start_replay"
JUDGE_REPLAY = "recovery.judge_replay"
HOLD = "recovery.hold_evidence"


class ReadOr(BasePermission):
    """Readers of verdicts read; writing needs the view's `write_permission`."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Whether the call may go on."""
        if not (request.user and request.user.is_authenticated):
            return False
        needed = READ if request.method in SAFE_METHODS else getattr(view, "write_permission", "")
        return bool(needed) and request.user.has_perm(needed)
