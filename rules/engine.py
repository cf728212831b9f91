"""The engine: attempt, observations and reports in; one verdict out. No clock, no randomness, no environment."""

from collections.abc import Iterable, Sequence

from rules import conclude, desync, extract
from rules.attempt import Attempt, CollectorReport
from rules.case import Case
from rules.events import Seen, build, seen_of
from rules.observation import Observation
from rules.place import build_places, reference
from rules.ruleset import Ruleset
from rules.stamp import MICRO
from rules.verdict import Verdict
from rules.words import Role, Source

#: Reference of the observation that the attempt's own fields make.
ATTEMPT_REF = "attempt.json"


def attribute(
    attempt: Attempt,
    observations: Iterable[Observation],
    reports: Sequence[CollectorReport],
    ruleset: Ruleset,
    *,
    mode: str = "slow",
) -> Verdict:
    """Attribute one attempt.

    The verdict is the same for any order, batching or duplication of the observations. `mode` is
    "fast" (what is there) or "slow" (all there will be) and is only written down.
    """
    distinct = {observation.digest(): observation for observation in observations}
    ordered = [distinct[key] for key in sorted(distinct)]
    if own := attempt_observation(attempt):
        ordered.append(own)
    ordered += desync.observations(ordered)
    found = [(observation, extract.sightings(ruleset, observation)) for observation in ordered]
    places = build_places(attempt, (s for _, sightings in found for s in sightings))
    near = reference(attempt) or _dated(found)
    bounds = {source: int(seconds * MICRO) for source, seconds in ruleset.site.clock_bounds.items()}
    bounds |= {source: int(seconds * MICRO) for source, seconds in attempt.clock_bounds.items()}
    seen: list[Seen] = []
    unrecognised = []
    progress: list[Seen] = []
    for observation, sightings in found:
        for sighting in sightings:
            if sighting.rule.role is Role.NOISE:
                continue
            placed = seen_of(sighting, observation, places, bounds, near, attempt.utc_offset)
            (progress if sighting.rule.role is Role.PROGRESS else seen).extend(placed)
        if not sightings and observation.ref != ATTEMPT_REF and is_suspicious(ruleset, observation):
            unrecognised.append(observation)
    case = Case(
        attempt=attempt,
        ruleset=ruleset,
        reports=reports,
        events=build(seen),
        unrecognised=unrecognised,
        progress=progress,
        places=places,
        near=near,
        zone=attempt.utc_offset,
        mode=mode,
    )
    return conclude.conclude(case)


def attempt_observation(attempt: Attempt) -> Observation | None:
    """The scheduler's closing words in the attempt as `scontrol show job` prints them, so that rules read them."""
    parts = []
    if attempt.state:
        parts.append(f"JobState={attempt.state}")
    if attempt.reason:
        parts.append(f"Reason={attempt.reason}")
    if attempt.exit_code is not None:
        parts.append(f"ExitCode={attempt.exit_code}")
    if attempt.signal is not None:
        parts.append(f"Signal={attempt.signal}")
    if not parts:
        return None
    return Observation(
        source=Source.KUBERNETES if attempt.scheduler == "kubernetes" else Source.SCHEDULER,
        body=f"JobId={attempt.job_id} " + " ".join(parts),
        ref=ATTEMPT_REF,
        timestamp=attempt.end,
    )


def is_suspicious(ruleset: Ruleset, observation: Observation) -> bool:
    """Whether a record that no rule knows looks like an error."""
    raw = observation.body.encode("utf-8", "surrogatepass")
    return any(ruleset.scanner.suspicious in ids for _, _, ids in ruleset.scanner.hits(raw))


def _dated(found: list[tuple[Observation, list[extract.Sighting]]]) -> int | None:
    """A moment from the dated evidence itself, for an attempt without a window: the median of the full dates."""
    micros = sorted(
        s.stamp.micros for _, sightings in found for s in sightings if s.stamp and s.stamp.clock in ("utc", "local")
    )
    return micros[len(micros) // 2] if micros else None
