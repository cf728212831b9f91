"""The limits that every guard keeps, with their defaults, and what no policy can raise them above."""

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Minutes = Annotated[int, msgspec.Meta(ge=0, le=60 * 24 * 90)]


class Caps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a policy. A share always leaves room for one node, if nothing else of the element is away.

    nodes_per_action, nodes_per_job: excluded by one action, and kept away from one workload at once.
    nodes_per_hour, nodes_per_day, actions_per_hour: on the cluster, whoever asked.
    partition_share, rack_share, switch_share, cluster_share: of the element's nodes away at once.
    exclusions_alive: nodes away on the cluster at once.
    healthy_share: of the partition's nodes that must stay; at least as many as the job needs must stay too.
    cooldown_minutes: between two actions on one workload, and on one node.
    restarts_per_workload, restarts_per_cause, restarts_per_locus: restarts without progress past the checkpoint.
    unknown_hours: for how long restarts whose progress is not known may go on.
    budget_hours: how far back restarts count.
    max_age_minutes: since the failure; later, the world is another one.
    settle_seconds: how long an automatic exclusion waits, so that neighbours that fail for one cause can show it.
    """

    nodes_per_action: Count = 2
    nodes_per_job: Count = 4
    nodes_per_hour: Count = 4
    nodes_per_day: Count = 16
    actions_per_hour: Count = 20
    partition_share: Share = 0.05
    rack_share: Share = 0.25
    switch_share: Share = 0.25
    cluster_share: Share = 0.05
    exclusions_alive: Count = 10
    healthy_share: Share = 0.75
    cooldown_minutes: Minutes = 10
    restarts_per_workload: Count = 5
    restarts_per_cause: Count = 3
    restarts_per_locus: Count = 2
    unknown_hours: Count = 6
    budget_hours: Count = 72
    max_age_minutes: Minutes = 120
    settle_seconds: Count = 120


#: What a policy's own caps are cut down to; the other limits are the policy's to choose.
CEILING = {
    "nodes_per_action": 16,
    "nodes_per_job": 32,
    "nodes_per_hour": 64,
    "nodes_per_day": 256,
    "actions_per_hour": 500,
    "partition_share": 0.25,
    "rack_share": 0.5,
    "switch_share": 0.5,
    "cluster_share": 0.25,
    "exclusions_alive": 512,
    "restarts_per_workload": 50,
    "restarts_per_cause": 20,
    "restarts_per_locus": 10,
    "unknown_hours": 48,
    "max_age_minutes": 24 * 60,
}
#: What must be at least so much.
FLOOR = {"healthy_share": 0.5, "budget_hours": 1, "cooldown_minutes": 1}


def bounded(caps: Caps) -> Caps:
    """A policy's caps, cut down to what no policy can go beyond."""
    cut = {name: min(getattr(caps, name), most) for name, most in CEILING.items()}
    cut |= {name: max(getattr(caps, name), least) for name, least in FLOOR.items()}
    return msgspec.structs.replace(caps, **cut)
