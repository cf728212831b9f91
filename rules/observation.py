"""The observation: one normalised record of evidence."""

import hashlib
from typing import Annotated

import msgspec

from rules.attempt import Whole
from rules.words import Source

MAX_BODY = 65_536
MAX_LINE = 16_384


class Observation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One record as it was read, after the OpenTelemetry log data model.

    `body` is the raw line with its prefix, or the joined lines of a record of several lines.
    `timestamp` is RFC 3339 with an offset, the same without one, "boot:<seconds>" or "--MM-DDTHH:MM:SS"
    (no year). `ref` is "file:line" or a query and a place in its stream. `count` stands for
    identical lines that were folded into this one. https://opentelemetry.io/docs/specs/otel/logs/data-model/
    """

    source: Source
    body: Annotated[str, msgspec.Meta(max_length=MAX_BODY)]
    ref: Annotated[str, msgspec.Meta(max_length=1024)] = ""
    node: Annotated[str, msgspec.Meta(max_length=255)] = ""
    rank: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] | None = None
    timestamp: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    observed_timestamp: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    collector: Annotated[str, msgspec.Meta(max_length=255)] = ""
    attributes: Annotated[
        dict[Annotated[str, msgspec.Meta(max_length=255)], Annotated[str, msgspec.Meta(max_length=MAX_LINE)] | Whole],
        msgspec.Meta(max_length=64),
    ] = {}
    count: Annotated[int, msgspec.Meta(ge=1, le=10**12)] = 1

    def digest(self) -> str:
        """Identity of the record: when it was read does not count."""
        same = msgspec.structs.replace(self, observed_timestamp=None)
        return hashlib.sha256(msgspec.json.encode(same, order="sorted")).hexdigest()
