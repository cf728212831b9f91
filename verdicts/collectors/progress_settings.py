"""How Inquest itself learns how far running attempts are: settings of the feeds, which `recovery` reads."""

from typing import Annotated

import msgspec

from verdicts.collectors.server import Server
from verdicts.collectors.source import Name

Label = Annotated[str, msgspec.Meta(pattern="^([a-zA-Z_][a-zA-Z0-9_]*)?$", max_length=100)]
Query = Annotated[str, msgspec.Meta(max_length=4_000)]


class _Feed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """A feed. `every` is the pause between two looks, `seconds` and `megabytes` bound one."""

    name: Name
    every: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 60.0
    seconds: Annotated[float, msgspec.Meta(gt=0, le=120)] = 10.0

    @property
    def kind(self) -> str:
        """The word that stands for this kind in the file."""
        return str(self.__struct_config__.tag)

    def check(self) -> None:
        """What the types cannot. Raises ValueError naming the key."""


class LogFeed(_Feed, tag="log", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New lines of running attempts, by the source of this cluster that is named. One look is at one attempt."""

    source: Name
    megabytes: Annotated[int, msgspec.Meta(ge=1, le=256)] = 8


class PrometheusFeed(_Feed, tag="prometheus", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Expressions whose series are ranks of jobs, or jobs where `rank_label` is empty. One look is at all jobs."""

    server: Server
    step: Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]
    checkpoint_step: Query = ""
    collective: Query = ""
    step_seconds: Query = ""
    job_label: Annotated[str, msgspec.Meta(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=100)] = "job_id"
    rank_label: Label = "rank"
    node_label: Label = ""
    gpu_label: Label = ""
    every: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 30.0
    megabytes: Annotated[int, msgspec.Meta(ge=1, le=1_024)] = 64

    def check(self) -> None:
        self.server.check()


ProgressKind = LogFeed | PrometheusFeed
