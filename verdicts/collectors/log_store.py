"""What the settings and the looks of the log stores have in common."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import ClassVar

from verdicts.collectors.ask import Budget
from verdicts.collectors.http import Refused, clock
from verdicts.collectors.labels import Nodes, check_template
from verdicts.collectors.server import Server
from verdicts.collectors.source import Probe, SourceSettings


class LogStore(SourceSettings, frozen=True, kw_only=True):
    """A store of log lines.

    `selector` is what all its lines share, in the store's own language; `job_value` what the field or label of the job
    holds. `joined_by` names the settings that hold a node's and a job's field or label.
    """

    server: Server
    selector: str = ""
    job_value: str = "{job_id}"

    joined_by: ClassVar[tuple[str, str]] = ("node_field", "job_field")

    def check(self) -> None:
        """What the types cannot. Raises ValueError naming the key."""
        self.server.check()
        check_template("job_value", self.job_value)
        if not (self.selector.strip() or any(self._selecting())):
            node, job = self.joined_by
            raise ValueError(f"selector: without it, {job} and {node} nothing says which lines are meant")

    def _selecting(self) -> tuple[str, ...]:
        """The fields that by themselves say which lines are meant."""
        return tuple(getattr(self, name) for name in self.joined_by)


class FieldStore(LogStore, frozen=True, kw_only=True):
    """A store whose entries have fields: `job_field` and `namespace_field` say whose, `node_field` where from."""

    node_field: str = ""
    job_field: str = ""
    namespace_field: str = ""
    rank_field: str = ""
    pod_field: str = ""


class Look:
    """One look at a log store, for `inquest sources check`."""

    def __init__(self, store: LogStore, nodes: Sequence[str], budget: Budget) -> None:
        self._store, self._nodes, self._budget = store, nodes, budget
        self._notes: list[str] = []

    def note(self, said: str) -> None:
        """Something to know of the store."""
        self._notes.append(said)

    def version(self, ask: Callable[[], str]) -> str:
        """Its version, "" where it does not tell. Raises SourceError."""
        try:
            return ask()
        except Refused as error:
            self.note(f"its version is not told: {error}")
            return ""

    def clock(self, path: str) -> datetime | None:
        """What time it is there. Raises SourceError."""
        return clock(self._store.server, path, self._budget)

    def found(
        self,
        values: Callable[[str], Iterable[str] | None],
        *,
        version: str,
        server_time: datetime | None,
        newest: datetime | None,
        asked: str,
        arrived: datetime | None = None,
    ) -> Probe:
        """What it came to.

        `values` are those that a field has of late, None where they cannot be had; `asked` says what was looked for.
        """
        node, job = (getattr(self._store, name) for name in self._store.joined_by)
        if newest is None:
            self.note(f"no line within the last hour {asked}")
        if not node:
            unset = self._store.joined_by[0]
            self.note(f"{unset} is not set: its lines are joined to nodes only by what they say themselves")
        known = Nodes(self._nodes).all_known((values(node) or ()) if node else ())
        jobs = values(job) if job else None
        return Probe(
            version=version,
            newest=newest,
            arrived=arrived,
            server_time=server_time,
            nodes=known,
            jobs=None if jobs is None else frozenset(jobs),
            notes=tuple(self._notes),
        )
