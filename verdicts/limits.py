"""Numbers that hold the pieces together, with their reasons."""

from datetime import timedelta

from django.conf import settings

#: A worker's hold on a request, and how often a living worker renews it. What a killed worker held is free
#: again after one lease.
LEASE = timedelta(seconds=20)
RENEW_EVERY = timedelta(seconds=5)
#: How often a request is tried before it is left as failed for a person to see.
MAX_TRIES = 5
#: Pause before another try after an error, times the number of tries.
RETRY_AFTER = timedelta(seconds=5)
#: A wake-up that nobody acted on for this long is sent again.
RESEND_AFTER = timedelta(seconds=20)
#: How long one task works off rows before its worker process looks for other tasks, in seconds.
WORK_SECONDS = 20.0
#: For each open row of its workload, up to so many, a new row lets others go first for so long.
CROWD_STEP, MAX_CROWD = timedelta(seconds=1), 600
#: How many requests one sweep wakes.
SWEEP_SIZE = 200
#: How long an API call may wait for a verdict at most, in seconds.
MAX_WAIT = 30.0
#: Observations in one delivery, and bytes of its body.
MAX_BATCH = 5_000
MAX_BATCH_BYTES = 16 * 1024 * 1024


def max_observations() -> int:
    """How many observations of one source an attempt may hold (setting INQUEST_MAX_OBSERVATIONS)."""
    return getattr(settings, "INQUEST_MAX_OBSERVATIONS", 20_000)


def max_observation_characters() -> int:
    """How many characters they may have in all (setting INQUEST_MAX_OBSERVATION_CHARACTERS)."""
    return getattr(settings, "INQUEST_MAX_OBSERVATION_CHARACTERS", 32 * 1024 * 1024)
