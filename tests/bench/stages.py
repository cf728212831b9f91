"""CPU time and statements of each stage for attempts that wait in a folder; `tests.bench.pipeline` runs it in a site."""

import json
import resource
from collections import Counter
from collections.abc import Callable
from typing import Any

import django
from django.db import connection

django.setup()

from verdicts import conclude  # noqa: E402
from verdicts.collecting import discover, gather  # noqa: E402
from verdicts.models import Verdict  # noqa: E402


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Do each stage for all that waits, and print its CPU milliseconds and its statements for an attempt."""
    conclude.current_ruleset()
    discover.ensure()
    spent: dict[str, float] = {}
    asked = Counter[str]()
    stage = ""

    def counted(execute: Callable[..., Any], *given: Any) -> Any:
        asked[stage] += 1
        return execute(*given)

    with connection.execute_wrapper(counted):
        for stage, work in (("discover", discover.work), ("collect", gather.work), ("attribute", conclude.work)):
            before = _cpu()
            while work():
                pass
            spent[stage] = _cpu() - before
    done = Verdict.objects.current().count()
    said = {name: (round(seconds / done * 1000, 1), round(asked[name] / done, 1)) for name, seconds in spent.items()}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
