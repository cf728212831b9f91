"""Which rank ran in which pod, as far as the pods themselves say it."""

from rules.attempt import MAX_RANK, RankPlace
from verdicts.collectors.kubernetes_pods import PodFact


def place_ranks(pods: list[PodFact], slots: int | None = None) -> dict[str, RankPlace]:
    """Which rank ran on which node, where the pods say it for certain; else nothing: the logs may say it."""
    workers = _workers(pods)
    if slots is not None:
        workers = [pod for pod in workers if pod.role == "worker"]
    pods_of: dict[int, PodFact] = {}
    places = [pod.index for pod in workers] if slots is not None else node_ranks(workers)
    for pod, rank in zip(workers, places, strict=True):
        if rank is None or rank in pods_of:
            return {}
        pods_of[rank] = pod
    each = {slots if slots is not None else pod.per for pod in workers}
    per = each.pop() if len(each) == 1 else None
    if not per or (max(pods_of) + 1) * per > MAX_RANK:
        return {}
    return {
        str(rank * per + local): RankPlace(node=pod.node)
        for rank, pod in sorted(pods_of.items())
        for local in range(per)
        if pod.node
    }


def _workers(pods: list[PodFact]) -> list[PodFact]:
    """The pods that train: of a TrainJob those of its "node" jobs; the newest of those that had one place."""
    chosen = [pod for pod in pods if pod.role == "node"] or [pod for pod in pods if pod.role != "launcher"]
    newest: dict[str, PodFact] = {}
    for pod in sorted(chosen, key=lambda pod: (pod.created, pod.name)):
        newest[pod.slot or pod.name] = pod
    return list(newest.values())


def node_ranks(workers: list[PodFact]) -> list[int | None]:
    """The place of each pod among those that train; None where it cannot be known."""
    one_role = len({pod.role for pod in workers}) <= 1
    by_index = one_role and not any(pod.job for pod in workers)
    by_job = one_role and all(pod.index in (None, 0) for pod in workers)
    alone = len(workers) == 1

    def place(pod: PodFact) -> int | None:
        if pod.rank is not None:
            return pod.rank
        if by_index:
            return 0 if alone and pod.index is None else pod.index
        return pod.job if by_job else None

    return [place(pod) for pod in workers]
