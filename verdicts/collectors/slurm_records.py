"""What Slurm says of jobs, steps and nodes, in one form whichever way and version it came."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rules.attempt import MAX_NODES, MAX_TEXT, Attempt, expand_hostlist

#: States in which an attempt is over. A flag such as COMPLETING beside one of them says that it is being cleaned up.
ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REQUEUED REVOKED SPECIAL_EXIT "
    "TIMEOUT REQUEUE_HOLD REQUEUE_FED".split()
)
#: States in which the controller counts the next restart already, while the time of submission is still the last one's.
UNSETTLED = frozenset({"COMPLETING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
#: States in which a job has not begun.
WAITING = frozenset("PENDING REQUEUED REQUEUE_HOLD REQUEUE_FED SPECIAL_EXIT RESV_DEL_HOLD EXPEDITING".split())
#: A comment that has a word for recovery. Whose job it is comes first, so that no other text can pass for it.
_OWN_WORD = re.compile(r"JobId=\S+ (?:Admin)?Comment=(?:.*[\s;|])?inquest=", re.IGNORECASE)
#: Reasons that only say why a job waited: accounting keeps the last one for ever.
_WAITED = re.compile(
    r"|None|N/A|Priority|Resources|Dependency|BeginTime|JobArrayTaskLimit|Licenses|Reservation|JobHeld\w+|Max\w+PerAccount"
    r"|(?:QOS|Assoc|Partition)\w+|Nodes_required\w*|ReqNodeNotAvail.*|Cleaning|FrontEndDown|Prolog"
)


@dataclass(frozen=True)
class Step:
    """A step of a job: "batch", "extern", "0"."""

    id: str
    name: str = ""
    state: str = ""
    exit_code: str = ""
    nodes: str = ""
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class Job:
    """One submission of a job: a requeue begins the next one under the same id.

    `id` is what people write: "4711", a task of an array "4711_3", and for each component of a heterogeneous job its
    leader's. Times are seconds since 1970, 0 where unknown; `exit_code` is "CODE:SIGNAL", "" where unknown;
    `restarts` is None where the way it came does not say. `nodes` is a host list. `live` says that it is the
    controller's word.
    """

    id: str
    component: int | None = None
    cluster: str = ""
    name: str = ""
    user: str = ""
    uid: int | None = None
    account: str = ""
    partition: str = ""
    state: str = ""
    submit: int = 0
    start: int = 0
    end: int = 0
    restarts: int | None = None
    nodes: str = ""
    exit_code: str = ""
    derived: str = ""
    reason: str = ""
    comment: str = ""
    admin_comment: str = ""
    system_comment: str = ""
    failed_node: str = ""
    live: bool = False
    steps: tuple[Step, ...] = ()

    @property
    def part(self) -> tuple[str, int]:
        """What stays the same over its submissions."""
        return self.id, self.component or 0

    @property
    def word(self) -> str:
        """The state without what is added to it: "CANCELLED by 1001" is CANCELLED."""
        return self.state.partition(" ")[0]

    @property
    def ended(self) -> bool:
        """Whether this submission is over."""
        return self.word in ENDED and self.end > 0

    @property
    def began(self) -> bool:
        """Whether it ever had nodes: what was cancelled while it waited is no attempt."""
        return bool(self.nodes) and self.word not in WAITING - ENDED


@dataclass(frozen=True)
class NodeState:
    """What the controller, or accounting's list of events, says of a node; `since` is when the reason was given."""

    name: str
    state: str
    reason: str = ""
    by: str = ""
    since: int = 0
    until: int = 0
    boot: int = 0


def stated(job: Job) -> str:
    """Why the job ended, "" where the reason only says why it once waited.

    Slurm before 23.02 says JobLaunchFailure of a batch script that a signal ended, and later RaisedSignal. "Signal" 53
    is none: it is how slurmstepd's error 4021 reads, an output file that could not be opened.
    """
    if not job.reason or _WAITED.fullmatch(job.reason):
        return ""
    if job.reason == "JobLaunchFailure" and job.exit_code and not job.exit_code.endswith((":0", ":53")):
        return ""
    return job.reason


# Putting together

#: What either side may know alone.
_FILLED = (
    "cluster", "name", "user", "account", "partition", "nodes", "start", "comment", "admin_comment", "system_comment",
    "failed_node", "derived",
)  # fmt: skip


def merged(jobs: Iterable[Job]) -> list[Job]:
    """One record for each submission of each component, of what the controller and accounting say.

    Accounting knows who cancelled it and forgets nothing; the controller knows the restarts, and the exit code
    whole: accounting shows "exit 137" as 9:0. A record that says that it ended wins over one that does not
    know yet. A job that changed its size has several rows in accounting with one time of submission.
    """
    found: dict[tuple[str, int | None, int], Job] = {}
    for job in sorted(jobs, key=lambda job: (job.live, job.start)):
        key = (job.id, job.component, job.submit)
        known = found.get(key)
        found[key] = job if known is None else _of_both(known, job)
    return sorted(found.values(), key=lambda job: (job.id, job.component or 0, job.submit))


def _of_both(first: Job, second: Job) -> Job:
    """`second` started later, or is the controller's word on what accounting says."""
    if first.live == second.live:
        if first.start == second.start:
            return replace(second, steps=second.steps or first.steps)
        nodes = ",".join(dict.fromkeys(part for part in (first.nodes, second.nodes) if part))
        return replace(second, start=first.start or second.start, nodes=nodes, steps=first.steps + second.steps)
    book, live = first, second
    main, other = (live, book) if live.ended and not book.ended else (book, live)
    filled = {field: getattr(main, field) or getattr(other, field) for field in _FILLED}
    code = main.exit_code or other.exit_code
    # While nodes are still being cleaned up the controller knows the end already.
    over = live.ended or live.word == "COMPLETING"
    if over and live.exit_code not in {"", "0:0"}:
        code = live.exit_code
    restarts = live.restarts if live.restarts is not None else book.restarts
    by = main.state.partition(" by ")[2]
    told = f"CANCELLED by {live.uid}" if by and by == live.user and live.uid is not None else main.state
    return replace(
        main,
        **filled,
        state=told,
        exit_code=code,
        reason=live.reason if over else main.reason,
        restarts=restarts,
        steps=book.steps or live.steps,
        live=False,
    )


def joined(jobs: Iterable[Job]) -> list[Job]:
    """The components of each heterogeneous job as one: it is one run, allocated, requeued and cancelled as a whole.

    Its nodes are those of all components; it is over when all are, and ended as the first that did not end well. The
    leader's submission counts: components may be stamped a second apart.
    """
    plain: list[Job] = []
    parts: dict[str, list[Job]] = {}
    for job in jobs:
        if job.component is None:
            plain.append(job)
        else:
            parts.setdefault(job.id, []).append(job)
    for components in parts.values():
        leaders = [job for job in components if job.component == 0] or components[:1]
        groups: list[list[Job]] = [[leader] for leader in leaders]
        for job in components:
            if job not in leaders:
                nearest = min(groups, key=lambda group: abs(group[0].submit - job.submit))
                nearest.append(job)
        plain += [_whole(group) for group in groups]
    return plain


def _whole(components: list[Job]) -> Job:
    leader, *_ = components = sorted(components, key=lambda job: job.component or 0)
    running = [job for job in components if not job.ended]
    bad = [job for job in components if job.word != "COMPLETED"]
    told = running[0] if running else bad[0] if bad else leader
    return replace(
        told,
        id=leader.id,
        component=None,
        name=leader.name,
        submit=leader.submit,
        restarts=leader.restarts,
        start=min((job.start for job in components if job.start), default=0),
        end=0 if running else max(job.end for job in components),
        nodes=",".join(dict.fromkeys(job.nodes for job in components if job.nodes)),
        steps=tuple(step for job in components for step in job.steps),
    )


def follows(before: Job, after: Job) -> bool:
    """Whether a submission is the restart of the one before it under its id, and not another job with a reused id.

    A requeue is stamped with the moment that it was asked for: before the end, where that took its time, or for a job
    that was over already minutes after it, as long as the controller remembers jobs.
    """
    same = (before.user, before.name) == (after.user, after.name)
    return same and before.end > 0 and after.submit - before.end <= 600


def numbered(
    jobs: Iterable[Job], known: Mapping[tuple[str, int], int], complete: Collection[str] = ()
) -> tuple[list[Job], set[str]]:
    """The jobs with their restart counts, and the ids of those whose count needs older submissions to be told.

    `known` are counts that were told before, by id and time of submission; of the ids in `complete` no older
    submissions are to be had. The controller says the count, accounting before 23.02 does not: there it is counted from
    the neighbours.
    """
    rows = sorted(jobs, key=lambda job: (job.id, job.component or 0, job.submit))
    same = [index > 0 and rows[index - 1].part == job.part for index, job in enumerate(rows)]
    counts = [known.get((job.id, job.submit), job.restarts) for job in rows]
    for index, job in enumerate(rows):
        if counts[index] is not None:
            continue
        if not same[index]:
            counts[index] = 0 if job.id in complete else None
        elif not follows(rows[index - 1], job):
            counts[index] = 0
        elif (count := counts[index - 1]) is not None:
            counts[index] = count + 1
    for index in range(len(rows) - 2, -1, -1):
        count = counts[index + 1]
        if counts[index] is None and count and same[index + 1] and follows(rows[index], rows[index + 1]):
            counts[index] = count - 1
    told = [
        job if job.restarts == count else replace(job, restarts=count) for job, count in zip(rows, counts, strict=True)
    ]
    return told, {job.id for job in told if job.restarts is None}


# As what the rest of Inquest reads


def rfc3339(seconds: int) -> str | None:
    """Seconds since 1970 as text; None for 0."""
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None


def attempt(job: Job, *, utc_offset: str = "") -> Attempt:
    """A submission that began, as an attempt. Raises ValueError where its host list cannot be read.

    Of one that was requeued as soon as it began accounting may have no start: then it is not before its submission.
    """
    code, _, signal = job.exit_code.partition(":")
    over = job.ended
    nodes = expand_hostlist(job.nodes[: 40 * MAX_NODES])
    reasons = [stated(job), f"failed node: {job.failed_node}" if job.failed_node else "", job.system_comment]
    return Attempt(
        job_id=job.id,
        scheduler="slurm",
        workload=job.name[:255],
        restart_count=job.restarts or 0,
        submit_time=rfc3339(job.submit),
        start=rfc3339(job.start or job.submit),
        end=rfc3339(job.end) if over else None,
        state=job.state,
        exit_code=job.exit_code if over and code else None,
        signal=int(signal) if over and signal and signal != "0" else None,
        reason="; ".join(reason for reason in reasons if reason)[:MAX_TEXT] if over else "",
        user=job.user,
        account=job.account[:255],
        partition=job.partition,
        nodes=nodes,
        utc_offset=utc_offset,
    )


def as_lines(job: Job) -> Iterable[tuple[str, int]]:
    """A job's record and the rows of its steps, as `scontrol show job` and `sacct -P` print them, with their times."""
    ended = job.end if job.ended else 0
    told = [f"JobId={job.id} JobName={job.name}", f"JobState={job.word}", f"Reason={stated(job) or 'None'}"]
    told += [f"Restarts={job.restarts}"] if job.restarts is not None else []
    told += [f"ExitCode={job.exit_code}"] if job.exit_code else []
    told += [f"DerivedExitCode={job.derived}"] if job.derived not in {"", "0:0"} else []
    told += [f"NodeList={job.nodes}"] if job.nodes else []
    told += [f"FailedNode={job.failed_node}"] if job.failed_node else []
    yield " ".join(told), ended
    for name, text in (
        ("Comment", job.comment),
        ("AdminComment", job.admin_comment),
        ("SystemComment", job.system_comment),
    ):
        if text:
            yield f"JobId={job.id} {name}={text}", ended
    if " by " in job.state:
        yield _row(job.id, job.name, job.partition, job.account, job.state, job.exit_code, job.nodes), ended
    for step in job.steps:
        full = f"{job.id}.{step.id}"
        yield _row(full, step.name, "", "", step.state, step.exit_code, step.nodes), step.end or ended


def says_of_itself(line: str) -> bool:
    """Whether a line of a record is a comment with a word for recovery, which no rule knows and which must be kept."""
    return bool(_OWN_WORD.match(line))


def _row(*fields: str) -> str:
    return "|".join(fields)


def node_line(node: NodeState) -> str:
    """A node's record as `scontrol show node` prints it, on one line."""
    line = f"NodeName={node.name} State={node.state}"
    if node.reason:
        at = (rfc3339(node.since) or "")[:19]
        line += f" Reason={node.reason}" + (f" [{node.by or 'slurm'}@{at}]" if at else "")
    return line
