"""What changed from one version of a policy to the next, and whether only its limits became tighter. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from recovery.caps import Caps
from recovery.policy import Rule

#: Limits that hold back more the larger they are; all others hold back more the smaller they are.
LARGER_IS_TIGHTER = frozenset({"healthy_share", "cooldown_minutes", "budget_hours", "settle_seconds"})
#: The same outside the caps: more people, more labels, more looking afterwards.
MORE_IS_TIGHTER = ("approvals", "label_share", "sample_share")
LESS_IS_TIGHTER = ("expires_minutes", "exclusion_hours")


class Difference(msgspec.Struct, frozen=True):
    """One field that differs; None where it was not set, and its default held."""

    field: str
    before: Any
    after: Any


def normal(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body with every default spelled out, so that a default that is written down is no difference."""
    return msgspec.to_builtins(msgspec.convert(body, Rule))


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """The fields that differ between two bodies, by name; those of the caps as "caps.nodes_per_day"."""
    flat_before, flat_after = _flat(normal(before)), _flat(normal(after))
    return [
        Difference(name, flat_before.get(name), flat_after.get(name))
        for name in sorted({*flat_before, *flat_after})
        if flat_before.get(name) != flat_after.get(name)
    ]


def tightened(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the later body allows nothing that the earlier did not: the same cases and action, in tighter limits."""
    old, new = msgspec.convert(before, Rule), msgspec.convert(after, Rule)
    if (old.match, old.action) != (new.match, new.action):
        return False
    for name in Caps.__struct_fields__:
        was, now = getattr(old.caps, name), getattr(new.caps, name)
        if (now < was) if name in LARGER_IS_TIGHTER else (now > was):
            return False
    more = all(getattr(new, name) >= getattr(old, name) for name in MORE_IS_TIGHTER)
    return more and all(getattr(new, name) <= getattr(old, name) for name in LESS_IS_TIGHTER)


def _flat(body: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in body.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{key}.")
        else:
            found[f"{before}{key}"] = value
    return found
