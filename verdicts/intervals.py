"""Exact intervals for a share: Clopper and Pearson's, which never promise more than was seen."""

import math
from dataclasses import dataclass

CONFIDENCE = 0.95
_STEPS = 200


@dataclass(frozen=True)
class Share:
    """So many out of so many, and between which bounds the share that stands behind it lies."""

    count: int
    whole: int
    low: float
    high: float

    @property
    def value(self) -> float | None:
        """The share itself; None of nothing."""
        return self.count / self.whole if self.whole else None


def share(count: int, whole: int, confidence: float = CONFIDENCE) -> Share:
    """A share with its two-sided Clopper–Pearson interval. Of nothing everything is possible."""
    if not 0 <= count <= whole:
        raise ValueError(f"{count} of {whole} is no share")
    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else _quantile(tail, count, whole - count + 1)
    high = 1.0 if count == whole else _quantile(1 - tail, count + 1, whole - count)
    return Share(count, whole, low, high)


def _quantile(p: float, a: float, b: float) -> float:
    """Where the beta distribution reaches `p`, by halving: it rises from 0 to 1 without a step back."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _beta(middle, a, b) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    # The fraction converges fast on one side of the mean; on the other it is that of the mirror image.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for step in range(1, 10_000):
        for factor in (
            step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)),
        ):
            d = 1 + factor * d
            c = 1 + factor / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value
