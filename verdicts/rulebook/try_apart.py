"""A pasted log tried in a process of its own, which ends when its time is over.

Matching is linear in the text, but thousands of findings are weighed against each other, and a thread cannot be
stopped: what a reader pastes must not hold up the site for the others. The child gets the rules in force as they are in
this process, needs neither Django nor the database, and inherits no secret from the environment.
"""

import os
import resource
import subprocess
import sys
from functools import lru_cache

import msgspec

from rules.attempt import InputError
from rules.ruleset import Ruleset, packed, unpacked
from rules.words import Source
from verdicts.rulebook.try_it import Tried, checked, try_text

#: Longest that a text is tried, in seconds; a child's processor time is bounded by as much.
SECONDS = 20.0
#: Memory that a child may take, in bytes.
MEMORY = 2 << 30


class _Order(msgspec.Struct, frozen=True):
    """What a child is to do."""

    ruleset: bytes
    text: bytes
    source: Source | None
    node: bytes


class _Answer(msgspec.Struct, frozen=True):
    """What it came to, or why the text was refused."""

    tried: Tried | None = None
    refused: str = ""


@lru_cache(maxsize=1)
def _packed(ruleset: Ruleset) -> bytes:
    return packed(ruleset)


def _bytes(text: str) -> bytes:
    """A text as it is, lone surrogates included: JSON can hold them."""
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def try_apart(
    text: str, ruleset: Ruleset, *, source: Source | None = None, node: str = "", seconds: float = SECONDS
) -> Tried:
    """Try a text. Raises InputError where there is nothing to try, too much, or it takes too long."""
    checked(text)
    order = msgspec.msgpack.encode(_Order(_packed(ruleset), _bytes(text), source, _bytes(node)))
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PATH": os.defpath}
    too_long = InputError(f"text: not done within {seconds:g} s and given up; paste fewer lines, those near the end")
    try:
        child = subprocess.run(
            [sys.executable, "-m", "verdicts.rulebook.try_apart", str(int(seconds) + 1)],
            input=order,
            capture_output=True,
            env=environment,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise too_long from error
    if child.returncode < 0:
        raise too_long
    if child.returncode:
        raise RuntimeError(
            f"the child ended with {child.returncode}: {child.stderr[-2000:].decode('utf-8', 'replace')}"
        )
    answer = msgspec.msgpack.decode(child.stdout, type=_Answer)
    if answer.tried is None:
        raise InputError(answer.refused)
    return answer.tried


def main() -> None:
    """The child: an order on standard input, an answer on standard output."""
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    order = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Order)
    try:
        answer = _Answer(
            try_text(_text(order.text), unpacked(order.ruleset), source=order.source, node=_text(order.node))
        )
    except InputError as error:
        answer = _Answer(refused=str(error))
    except MemoryError:
        answer = _Answer(refused="text: it takes more memory than a try may have; paste fewer lines")
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    main()
