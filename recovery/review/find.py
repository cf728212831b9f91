"""What the pages of proposals ask beside the rows: what stands against one now, and what several share."""

from collections.abc import Iterable
from uuid import UUID

from django.contrib.auth.models import User

from recovery import decide, guards, permissions, standing, topology
from recovery.facts import Refusal
from recovery.models import Consideration, Proposal
from recovery.moves import plan_of
from recovery.words import ProposalState

GOING = (ProposalState.OPEN.value, ProposalState.APPROVED.value)


def against(row: Proposal) -> list[Refusal]:
    """The guards that stand against a proposal as things are now; nothing for one that is over or under way."""
    if row.state not in GOING:
        return []
    plan = plan_of(row)
    return guards.recheck(plan, standing.facts(plan))


def hinders(row: Proposal, user: User, refusals: list[Refusal]) -> dict[str, str]:
    """Why this person cannot `approve`, or cannot `decide` at all, to be said before the click.

    What guards say is listed on the page already, and is pointed to.
    """
    if not user.has_perm(permissions.DECIDE):
        return {"decide": "Deciding needs the role operator, lead or administrator.", "approve": ""}
    why = decide.why_not(row, user)
    if not why and refusals:
        why = "It cannot be approved while that stands against it which is listed above."
    return {"decide": "", "approve": why}


def elements_of(rows: Iterable[Proposal]) -> dict[UUID, set[tuple[str, str]]]:
    """What the nodes of each proposal belong to: switch, rack, image and the like, as far as it is known."""
    known: dict[UUID, topology.Topology] = {}
    found: dict[UUID, set[tuple[str, str]]] = {}
    for row in rows:
        cluster = row.attempt.cluster_id
        if cluster not in known:
            known[cluster] = topology.of_cluster(cluster)
        found[row.pk] = topology.elements_of(known[cluster], row.nodes)
    return found


def considered(attempt_id: UUID) -> list[str]:
    """What recovery made of an attempt's standing verdict: a line per policy; empty where it was not looked at yet."""
    row = Consideration.objects.filter(verdict__attempt=attempt_id, verdict__is_current=True).only("said").first()
    return [str(line) for line in row.said] if row else []
