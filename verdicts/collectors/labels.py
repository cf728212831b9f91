"""Joining what a store calls a node, a job and a rank to what the attempt calls them.

A node is "gpu-017" to the scheduler, "gpu-017.cluster.local" to syslog, "GPU-017:9100" to an exporter: one of
them is the other up to a dot, whatever the case. Two full names with different domains are two machines.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from rules.attempt import MAX_RANK, Attempt

#: Nodes in one question, however short their names are.
MAX_NODES_ASKED = 1_000

_PORT = re.compile(r"(.+[^:]):\d{1,5}")
_ADDRESS = re.compile(r"[0-9.]+|[0-9a-f:.]*:[0-9a-f:.]*")
_GO_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_LUCENE_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$\"#@&<>~-]")
_KUBERNETES = re.compile(r"(?P<namespace>[^/@]+)/[^/@]+/(?P<name>[^/@]+)@[0-9a-f]+")
_FIELD = re.compile(r"\{(job_id|workload|name|namespace)\}")

Escape = Callable[[str], str]


def go_regex(text: str) -> str:
    """Text as a regular expression of Go (RE2) that matches it and nothing else."""
    return _GO_SPECIAL.sub(r"\\\g<0>", text)


def lucene_regex(text: str) -> str:
    """Text as a regular expression of Lucene that matches it and nothing else."""
    return _LUCENE_SPECIAL.sub(r"\\\g<0>", text)


def quoted(text: str) -> str:
    """Text as a string of LogQL or LogsQL, in which nothing of it can end the string."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)


class Nodes:
    """The attempt's nodes, under every name that a store may have for them."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._whole: dict[str, str] = {}
        self._starts: dict[str, str] = {}
        self._found: dict[str, str] = {}
        for name in self.names:
            key = _key(name)
            self._whole[key] = name
            for start in _starts(key):
                # A short name that two nodes share is neither's.
                self._starts[start] = name if self._starts.get(start, name) == name else ""

    def known(self, label: str) -> str:
        """The attempt's own name of the node that a label means, "" where it means none of them."""
        found = self._found.get(label)
        if found is None:
            found = self._found[label] = self._known(_key(label))
        return found

    def _known(self, key: str) -> str:
        if name := self._whole.get(key) or self._starts.get(key):
            return name
        return next((self._whole[start] for start in _starts(key) if start in self._whole), "")

    def all_known(self, labels: Iterable[str]) -> frozenset[str]:
        """Those of the attempt's nodes that a store has a name for."""
        return frozenset(filter(None, map(self.known, labels)))

    def patterns(self, escape: Escape, longest: int) -> Iterator[str]:
        """Alternations of names, each no longer than `longest`, that match every node's name up to its first dot.

        What a question with them brings has to be looked at with `known`: a start is shared more widely.
        """
        parts = list(dict.fromkeys(escape(_short(name)) for name in self.names))
        while parts:
            take = size = 0
            while take < min(len(parts), MAX_NODES_ASKED) and (not take or size + len(parts[take]) < longest):
                size += len(parts[take]) + 1
                take += 1
            yield "|".join(parts[:take])
            parts = parts[take:]


def _key(name: str) -> str:
    key = name.strip().rstrip(".").lower()
    ported = _PORT.fullmatch(key)
    return ported[1] if ported else key


def _starts(key: str) -> Iterator[str]:
    """What of a name stands before one of its dots, the longest first; an address has no such parts."""
    if _ADDRESS.fullmatch(key):
        return
    while "." in key:
        key = key.rpartition(".")[0]
        yield key


def _short(name: str) -> str:
    key = _key(name)
    return key if _ADDRESS.fullmatch(key) else key.partition(".")[0]


def rank_of(label: object) -> int | None:
    """A rank as a label has it, None where it is none."""
    text = str(label)
    rank = int(text) if re.fullmatch("[0-9]{1,8}", text) else MAX_RANK + 1
    return rank if rank <= MAX_RANK else None


def job_value(template: str, attempt: Attempt, escape: Escape) -> tuple[str, bool]:
    """What the label of a job must be for an attempt, and whether that is a regular expression.

    `template` has {job_id}, {workload} and, of a Kubernetes job id, {namespace} and {name}. Where the rest of it is
    more than plain text it is a regular expression, in which the values stand for themselves.
    """
    regex = bool(_GO_SPECIAL.search(_FIELD.sub("", template)))
    values = {"job_id": attempt.job_id, "workload": attempt.workload, "name": attempt.job_id, "namespace": ""}
    if parts := _KUBERNETES.fullmatch(attempt.job_id):
        values |= parts.groupdict()
    return _FIELD.sub(lambda field: escape(values[field[1]]) if regex else values[field[1]], template), regex


def check_template(key: str, template: str) -> None:
    """Raises ValueError naming the key where a template of a job's label cannot be used."""
    if not _FIELD.search(template):
        raise ValueError(f"{key}: {template!r} names none of {{job_id}}, {{workload}}, {{name}}")
    plain = _FIELD.sub("x", template)
    if _GO_SPECIAL.search(plain):
        try:
            re.compile(plain)
        except re.error as error:
            raise ValueError(f"{key}: {template!r} is no regular expression: {error}") from error


def some(names: Sequence[str], most: int = 5) -> str:
    """A few of many names, and how many there are more."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
