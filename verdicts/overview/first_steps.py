"""What stands between an empty store and the first verdict, as it is now."""

from dataclasses import dataclass
from pathlib import Path

from django.db.models import Q
from django.db.models.functions import Now

from verdicts import limits
from verdicts.choices import RequestState
from verdicts.models import Attempt, AttributionRequest, Verdict

SAMPLES = Path(__file__).parent.parent / "samples"

#: The shipped samples in the order in which they teach, each with what it shows.
WORTH_TRYING = (
    ("xid149", "NCCL errors on every rank, and the NVLink fault that caused them."),
    ("two-causes", "Two causes that nothing orders: the verdict stays ambiguous and names a test."),
    ("killed-without-witness", "A kill that no log explains: the verdict says what is missing."),
    ("host-oom", "A job that outgrew its memory limit: no node is to blame."),
    ("python-error", "An error in the user's own code."),
    ("container-image", "An image that could not be started."),
    ("out-of-time", "A job that ran into its time limit."),
    ("clean-success", "A job that went well, with warnings that mean nothing."),
)


@dataclass(frozen=True)
class Sample:
    """A made-up incident that comes with the product."""

    name: str
    shows: str
    path: Path


@dataclass(frozen=True)
class Steps:
    """Which of the first steps are done. `waiting` is how many requests no worker takes."""

    stored: bool
    attributed: bool
    waiting: int
    latest: Verdict | None


def look() -> Steps:
    """How far this site is."""
    unheard = Q(state=RequestState.PENDING.value, created_at__lt=Now() - limits.RESEND_AFTER)
    return Steps(
        stored=Attempt.objects.exists(),
        attributed=Verdict.objects.exists(),
        waiting=AttributionRequest.objects.filter(unheard).count(),
        latest=Verdict.objects.current().only("id", "headline").order_by("-created_at").first(),
    )


def samples() -> list[Sample]:
    """The samples that are worth trying first."""
    return [Sample(name, shows, SAMPLES / name) for name, shows in WORTH_TRYING]


def sample(name: str) -> Sample | None:
    """One of them by its name."""
    return next((found for found in samples() if found.name == name), None)
