"""CPU time of each stage for attempts that wait in a folder, in this process; `tests.bench.pipeline` runs it in a site."""

import json
import resource

import django

django.setup()

from verdicts import conclude, discover, gather  # noqa: E402 - after Django's set-up
from verdicts.models import Verdict  # noqa: E402


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Do each stage for all that waits and print its CPU milliseconds for an attempt."""
    conclude.current_ruleset()
    discover.ensure()
    spent = {}
    for name, work in (("discover", discover.work), ("collect", gather.work), ("attribute", conclude.work)):
        before = _cpu()
        while work():
            pass
        spent[name] = _cpu() - before
    done = Verdict.objects.current().count()
    print(json.dumps({name: round(seconds / done * 1000, 1) for name, seconds in spent.items()}))


if __name__ == "__main__":
    main()
