"""How sure a share is that was counted from few."""

from math import sqrt
from typing import NamedTuple

#: Two-sided 95%.
_Z = 1.959964


class Share(NamedTuple):
    """`part` of `whole`, with the bounds that the true share lies within in 95 of 100 such counts."""

    part: int
    whole: int
    low: float
    high: float

    @property
    def percent(self) -> float:
        """The share as counted, in percent."""
        return 100 * self.part / self.whole if self.whole else 0.0


def share(part: int, whole: int) -> Share:
    """A share with Wilson's interval, which is honest where few were counted and where none or all were."""
    if not 0 <= part <= whole:
        raise ValueError(f"{part} is no part of {whole}")
    if not whole:
        return Share(0, 0, 0.0, 1.0)
    seen = part / whole
    middle = (seen + _Z**2 / (2 * whole)) / (1 + _Z**2 / whole)
    reach = _Z / (1 + _Z**2 / whole) * sqrt(seen * (1 - seen) / whole + _Z**2 / (4 * whole**2))
    low = 0.0 if not part else max(middle - reach, 0.0)
    return Share(part, whole, low, 1.0 if part == whole else min(middle + reach, 1.0))
