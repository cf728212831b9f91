"""The fixed texts that a pattern cannot match without, read off the parsed pattern.

`required` gives alternatives of which every match contains at least one, or none where a pattern can
match without any fixed text worth looking for. Among several such sets it takes the one that ordinary
lines are least likely to have.
"""

import re
from functools import cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

#: More alternatives than this are not followed: the text around them says enough.
MAX_ALTERNATIVES = 64
#: A text shorter than this, or one that ordinary lines have, does not narrow a search.
MIN_RARE = 5
#: More length than this makes a text no rarer.
ENOUGH = 10
#: What healthy jobs and machines print all the time, in lower case.
ORDINARY = """
node:4100:5200 [0] nccl info channel 05/0 : 3[3] -> 11[3] [send] via net/ib/3/gdrdma  nccl info comm 0x5 rank 3 nranks 8
nccl info allreduce: opcount 1f sendbuff 0x7f count 4096 datatype 9 op 0 root 0 comm  nccl info net/plugin: using
 [2026-11-03 02:00:00] iteration        5/  500000 | consumed samples: 2048 | elapsed time per iteration (ms): 5432.1 |
throughput per gpu (tflop/s/gpu): 410.3 | learning rate: 1.5e-04 | global batch size: 2048 | lm loss: 2.42e+00 |
 loss scale: 1.0 | grad norm: 0.453 | number of skipped iterations: 0 | number of nan iterations: 0 | validation loss at
2026-11-03 02:11:04,123 info [trainer.py:123] rank=3 step=12 loss=2.31 lr=1e-4 tokens_per_s=9000 mem_gb=60.2 epoch 1:
step 10 epoch: 3 train_loss: val_loss= eval accuracy:  12%|#  | 12/100 [00:10<01:20, 1.10it/s] samples/s s/it batch
[rank3]: info data.loader: opened s3://corpus/shard-000001.tar, 10 samples, 3.1 mb, 0.5 s loading checkpoint from
successfully saved checkpoint at iteration 10 to /ckpt/iter_0000010 saving model  warning: userwarning: futurewarning:
deprecationwarning: [info] [warning] info: debug: warning: level=info msg= error: failed exception connection torch.
nov  3 02:00:00 gpu-001 systemd[1]: started session 3 of user root. session-3.scope: deactivated successfully.
cron[12]: (root) cmd (/usr/local/sbin/node-health) sshd[12]: connection closed by 10.0.0.9 port 4 [preauth] accepted
publickey for root from 10.0.0.9 port 22 ssh2 pam_unix(sshd:session): session opened for user root by (uid=0) new
kernel: [12.000001] audit: type=1400 audit(1762135200.1:2): apparmor="status" operation="profile_load" profile=
kernel: ipv6: addrconf(netdev_change): veth0: link becomes ready docker0: port 1(veth0) entered forwarding state
containerd[1]: time="2026-11-03t02:00:00z" level=info msg="shim disconnected" id=1 namespace=k8s.io kubelet[1]: i1103
slurmd[1]: launch task stepid=1.0 request from uid:1001 gid:1001 host:10.0.0.1 port:1 slurmstepd: slurmctld: srun:
node_exporter[1]: ts=2026-11-03t02:00:00z caller=collector.go:169 msg="collector succeeded" duration_seconds=0.1
[info] [tid 12] request to query nvswitch 1 link state, port 12 active  fabric manager nvidia nvrm: gpu
sched: allocate jobid=1 nodelist=gpu-001 #cpus=192 partition=gpu _slurm_rpc_submit_batch_job: jobid=1 initprio=1 usec=1
_job_complete: jobid=1 wexitstatus 0 done state=running reason=none exitcode=0:0 nodename= time_limit= memory operation
"""


@cache
def required(pattern: str) -> tuple[frozenset[str], bool]:
    """(alternatives, whether their case does not matter); no alternatives when none are required."""
    parsed = _parser.parse(pattern)
    best = _best(list(parsed))
    return frozenset(best), bool(parsed.state.flags & re.IGNORECASE)


def longest(pattern: str) -> str:
    """The fixed text that every match has; "" where there are alternatives or none."""
    texts, _ = required(pattern)
    return next(iter(texts)) if len(texts) == 1 else ""


def group_texts(pattern: str, group: str) -> frozenset[str] | None:
    """All texts that a named group can have, None when they are not a few fixed ones."""
    parsed = _parser.parse(pattern)
    number = parsed.state.groupdict.get(group)
    if number is None:
        return frozenset()
    items = _group_items(list(parsed), number)
    if items is None or parsed.state.flags & re.IGNORECASE:
        return None
    texts = _sequence(items)
    return frozenset(texts) if texts is not None else None


def _group_items(items: list[Any], number: int) -> list[Any] | None:
    """What stands in a numbered group, wherever it is nested."""
    for op, value in items:
        inner: list[list[Any]] = []
        if op is sre.SUBPATTERN:
            if value[0] == number:
                return list(value[3])
            inner = [list(value[3])]
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            inner = [list(value[2])]
        elif op is sre.BRANCH:
            inner = [list(branch) for branch in value[1]]
        for part in inner:
            if (found := _group_items(part, number)) is not None:
                return found
    return None


def is_rare(text: str) -> bool:
    """Whether a text is worth looking for by itself: long enough, and nothing that healthy lines have."""
    return len(text) >= MIN_RARE and text.lower() not in ORDINARY


def _score(texts: list[str]) -> tuple[bool, int, int]:
    """How well a set of alternatives narrows: its worst text counts, then how few there are."""
    if not texts:
        return (False, 0, 0)
    return (all(map(is_rare, texts)), min(ENOUGH, *(len(text) for text in texts)), -len(texts))


def _best(items: list[Any]) -> list[str]:
    """The best set of required texts in a sequence."""
    candidates: list[list[str]] = []
    exact: list[str] = [""]
    for item in [*items, None]:
        texts = _exact(item) if item is not None else None
        if texts is not None and len(exact) * len(texts) <= MAX_ALTERNATIVES:
            exact = [head + tail for head in exact for tail in texts]
            continue
        if all(exact):
            candidates.append(exact)
        exact = texts if texts is not None else [""]
        if item is not None and (inner := _inside(item)):
            candidates.append(inner)
    return max(candidates, key=_score, default=[])


def _exact(item: Any) -> list[str] | None:
    """All texts that an item can be, when they are few; None otherwise."""
    op, value = item
    if op is sre.LITERAL:
        return [chr(value)]
    if op is sre.AT:
        return [""]
    if op is sre.IN:
        return _members(value)
    if op is sre.SUBPATTERN:
        return None if value[1] or value[2] else _sequence(list(value[3]))
    if op is sre.BRANCH:
        found: list[str] = []
        for branch in value[1]:
            texts = _sequence(list(branch))
            if texts is None:
                return None
            found += texts
        return found if len(found) <= MAX_ALTERNATIVES else None
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        low, high, inner = value
        texts = _sequence(list(inner))
        if texts is None or not (low == high <= 4 or (low, high) == (0, 1)):
            return None
        return ["", *texts] if low == 0 else _power(texts, low)
    return None


def _power(texts: list[str], times: int) -> list[str] | None:
    out = [""]
    for _ in range(times):
        out = [head + tail for head in out for tail in texts]
        if len(out) > MAX_ALTERNATIVES:
            return None
    return out


def _members(value: list[Any]) -> list[str] | None:
    """The characters of a small class such as [sS]."""
    if all(op is sre.LITERAL for op, _ in value) and len(value) <= 4:
        return [chr(code) for _, code in value]
    return None


def _sequence(items: list[Any]) -> list[str] | None:
    out = [""]
    for item in items:
        texts = _exact(item)
        if texts is None or len(out) * len(texts) > MAX_ALTERNATIVES:
            return None
        out = [head + tail for head in out for tail in texts]
    return out


def _inside(item: Any) -> list[str]:
    """What an item that is no plain text requires all the same."""
    op, value = item
    if op is sre.SUBPATTERN:
        return [] if value[1] or value[2] else _best(list(value[3]))
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[0] > 0:
        return _best(list(value[2]))
    if op is sre.BRANCH:
        found: list[str] = []
        for branch in value[1]:
            texts = _best(list(branch))
            if not texts:
                return []
            found += texts
        return found if len(found) <= MAX_ALTERNATIVES else []
    return []
