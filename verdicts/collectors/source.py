"""What every source and every discovery of attempts has in common: their settings, and the two things they can do."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec

from rules.attempt import Attempt
from rules.words import Source
from verdicts.collectors.ask import Ask, Budget
from verdicts.collectors.sink import Sink

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$")]


@dataclass(frozen=True)
class Probe:
    """What a look at a source found, for `inquest sources check`.

    `newest` is the newest record's own time and `arrived` when the store says it had it, where it says so;
    `server_time` the other side's clock. `nodes` are names that its labels join to, `jobs` likewise. `nothing` says
    what was looked for where nothing is there that could ever be read: "no file below /logs matches *.out".
    """

    version: str = ""
    newest: datetime | None = None
    arrived: datetime | None = None
    server_time: datetime | None = None
    nodes: frozenset[str] = frozenset()
    jobs: frozenset[str] | None = None
    notes: tuple[str, ...] = ()
    nothing: str = ""


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """A source of evidence. `seconds` and `megabytes` bound one collection; `lag` is how late its data may arrive:
    what is collected sooner than that after an attempt's end is collected once more.

    `lead` is how long before the attempt's start it is asked from.
    """

    name: Name
    source: Source
    seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0
    megabytes: Annotated[int, msgspec.Meta(ge=1, le=16_384)] = 256
    lag: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 0.0
    lead: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 300.0

    #: Kinds of evidence that this system can give; others are refused when the file is read.
    gives: ClassVar[frozenset[Source]] = frozenset(Source)

    @property
    def kind(self) -> str:
        """The word that stands for this system in the file."""
        return str(self.__struct_config__.tag)

    def check(self) -> None:
        """What the types cannot: patterns, label names, files that must be there. Raises ValueError naming the key."""

    def collect(self, ask: Ask, out: Sink) -> None:
        """Read what this source has for an attempt. Raises SourceError when nothing more can be had."""
        raise NotImplementedError

    def probe(self, nodes: Sequence[str], budget: Budget) -> Probe:
        """Look whether it answers, what it has lately, and what of `nodes` it knows. Raises SourceError."""
        raise NotImplementedError


@dataclass(frozen=True)
class Found:
    """What a look for attempts found. `cursor` goes on from here next time; it is plain JSON.

    `listed` are the job ids that the scheduler still has as not ended, or None where it could not be asked: silence
    is unknown, never gone. `notes` say which way was taken and what was missing.
    """

    attempts: Sequence[Attempt]
    cursor: dict[str, Any]
    listed: frozenset[str] | None = None
    notes: tuple[str, ...] = field(default=())


class DiscoverySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Where a cluster's attempts are found. `every` is the pause between two looks, `seconds` the time of one."""

    name: Name
    every: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 10.0
    seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 60.0

    @property
    def kind(self) -> str:
        """The word that stands for this system in the file."""
        return str(self.__struct_config__.tag)

    def check(self) -> None:
        """What the types cannot. Raises ValueError naming the key."""

    def discover(self, cursor: dict[str, Any], now: datetime, budget: Budget) -> Found:
        """Look once, going on from `cursor` ({} the first time). Raises SourceError; then the cursor stays."""
        raise NotImplementedError
