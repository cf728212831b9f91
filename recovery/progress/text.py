"""What lines of a log say of progress: the file protocol of Inquest, and how the common trainers print their steps.

Pure. A line of the protocol is

    inquest: step=1200 ckpt=1000 coll=88123 sec=2.31 phase=eval rank=3 node=gpu-017 gpu=2

with any of its words left out. Of other lines only forms that name a step are believed; a progress bar counts as a step
where it is a training's, and never against a line that names one.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rules import read

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"


@dataclass(frozen=True)
class Said:
    """What one line says; None is unknown. `bar` marks a progress bar, which may be of anything."""

    step: int | None = None
    checkpoint_step: int | None = None
    collective: int | None = None
    step_seconds: float | None = None
    phase: str | None = None
    rank: int | None = None
    node: str = ""
    gpu: str = ""
    bar: bool = False


@dataclass(frozen=True)
class Line:
    """A line with where it came from. `at` is when it was written, seconds since 1970."""

    text: str
    at: float | None = None
    node: str = ""
    rank: int | None = None


#: Lines that name a step: groups `step`, `ms` or `s` for the time of one, `rate` for steps a second.
_STEPS = tuple(
    re.compile(pattern)
    for pattern in (
        # NeMo 2 and Megatron-Bridge: the global step counts, the iteration is within the epoch.
        rf"\bglobal_step[=:] *(?P<step>\d+)\b(?:.*?train_step_timing in s[=:] *(?P<s>{_NUMBER}))?",
        # Megatron-LM and what is built on it; "(s)" is an older form of the time.
        (
            r"\biteration +(?P<step>\d+)/ *\d+ \|"
            rf"(?:.*?elapsed time per iteration \((?:ms\): *(?P<ms>{_NUMBER})|s\): *(?P<s>{_NUMBER})))?"
        ),
        # DeepSpeed's pipeline engine, and its report of every rank 0.
        rf"\bsteps: (?P<step>\d+) loss: \S+ iter time \(s\): *(?P<s>{_NUMBER})",
        r"\[logging\.py:\d+:log_dist\] \[Rank \d+\] step=(?P<step>\d+), skipped=",
        # torchtitan, and others of that form.
        r"\bstep: +(?P<step>\d+) +(?:loss|lr|loss_scale):",
        # MaxText.
        rf"\bcompleted step: (?P<step>\d+), seconds: (?P<s>{_NUMBER})",
        # MosaicML Composer.
        r"\[(?:batch|ba)=(?P<step>\d+)/\d+\]",
        # ms-swift and others that put the trainer's state into the dictionary of the Hugging Face Trainer.
        r"'global_step(?:/max_steps)?': '?(?P<step>\d+)",
        # fairseq: updates over all epochs.
        r"\bnum_updates=(?P<step>\d+)\b",
        # verl.
        r"\bstep:(?P<step>\d+) - [a-z_]+/",
        # nanoGPT and litgpt; the second counts iterations and, where it accumulates gradients, steps.
        rf"\biter \d+ step (?P<step>\d+)\b.*?\bloss\b.*?iter time: *(?P<ms>{_NUMBER})ms",
        rf"\biter (?P<step>\d+): (?:train )?loss\b(?:.*?time *(?P<ms>{_NUMBER})ms)?",
        # TensorFlow's estimators, Detectron2, Caffe.
        r"\b(?:global_)?step = (?P<step>\d+), loss = ",
        r"\bd2\.utils\.events\b.*?\biter: (?P<step>\d+)\b",
        rf"\bIteration (?P<step>\d+)(?: \((?P<rate>{_NUMBER}) iter/s[^)]*\))?, (?:loss|lr) = ",
    )
)
#: A checkpoint that was written whole; its step where the line or the name of its folder has it.
_SAVED = re.compile(
    r"successfully saved (?:async )?checkpoint (?:at|from) iteration +(?P<step>\d+)"
    r"|(?i:saved (?:model )?checkpoint|checkpoint (?:was )?saved|saving model checkpoint|\[torch\] saved)"
    r".{0,300}?(?:global_step|checkpoint-|step[-_=]?|iter_|ba)(?P<folder>\d+)"
)
#: A pause without steps begins.
_PHASES = (
    ("checkpoint", re.compile(r"(?i)\bsaving (?:the )?(?:model )?checkpoint\b(?!.{0,40}\bdone\b)|\[save_checkpoint\]")),
    (
        "evaluation",
        re.compile(
            r"(?i)\*{3,} *running (?:evaluation|prediction)"
            r"|\bvalidation dataloader|^ *(?:Evaluating|Validat(?:ion|ing))\b"
        ),
    ),
    ("loading", re.compile(r"(?i)\bloading (?:the )?checkpoint\b|\bloading checkpoint shards\b")),
)
#: tqdm and rich: how many of how many, how long each. Hugging Face, Axolotl, Lightning and others.
_BAR = re.compile(
    r"(?P<step>\d+)/(?P<total>\d+) \[[0-9:]+<[0-9:?]+, *"
    rf"(?:(?P<rate>{_NUMBER})(?:it|batch|steps|ba)/s|(?P<s>{_NUMBER})s/(?:it|batch))"
)
#: What a bar counts where it counts no steps of a training.
_OTHER_BARS = re.compile(
    r"(?i)\b(?:eval|valid|test|predict|generat|load|download|fetch|map|filter|token|pack|sav|writ|shard|sanity|process)\w*"
)
_EPOCH = re.compile(r"\bEpoch (?P<epoch>\d+)\b")
_OWN = re.compile(r"\binquest: (?P<words>(?:[a-z]+=\S+ *)+)")
_WORD = re.compile(r"([a-z]+)=(\S+)")
#: No counter is as large; more digits than that are something else.
_MOST = 2**53 - 1


def said(text: str) -> Said | None:
    """What one line says of progress; None where it says nothing. The last frame of a bar that is redrawn counts."""
    if match := _OWN.search(text):
        return _own(match["words"])
    for pattern in _STEPS:
        if (match := pattern.search(text)) and (step := _count(match["step"])) is not None:
            return Said(step=step, step_seconds=_seconds(match.groupdict()), phase="")
    if match := _SAVED.search(text):
        return Said(checkpoint_step=_count(match["step"] or match["folder"]), phase="")
    if bars := list(_BAR.finditer(text)):
        return _bar(text, bars[-1])
    return next((Said(phase=phase) for phase, pattern in _PHASES if pattern.search(text)), None)


def _own(words: str) -> Said | None:
    """A line of the protocol. A word that does not fit is passed over: the others still say something."""
    given = dict(_WORD.findall(words))
    found = Said(
        step=_count(given.get("step")),
        checkpoint_step=_count(given.get("ckpt")),
        collective=_count(given.get("coll")),
        step_seconds=_positive(given.get("sec")),
        phase=given["phase"][:64] if "phase" in given else None,
        rank=_count(given.get("rank"), 10_000_000),
        node=given.get("node", "")[:255],
        gpu=given.get("gpu", "")[:255],
    )
    if found.step is not None and found.phase is None:
        found = replace(found, phase="")
    return found if found != Said() else None


def _bar(text: str, match: re.Match[str]) -> Said | None:
    """A progress bar: a step of a training, or the phase that it stands for."""
    before = text[max(0, match.start() - 120) : match.start()]
    if other := _OTHER_BARS.search(before):
        word = other[0].lower()
        return Said(
            phase="evaluation" if word.startswith(("eval", "valid", "test", "predict", "sanity")) else "loading"
        )
    step, total = _count(match["step"]), _count(match["total"])
    if step is None or total is None:
        return None
    if epoch := _EPOCH.search(before):  # Lightning begins anew with each epoch
        step += (_count(epoch["epoch"]) or 0) * total
    return Said(step=min(step, _MOST), step_seconds=_seconds(match.groupdict()), phase="", bar=True)


def last_of(lines: Iterable[Line]) -> list[tuple[Said, float | None]]:
    """What lines say in the end, for each rank: the last of each kind of thing, with when the newest was written.

    Lines of one rank are in the order in which they were written. Bars count only where no line names a step.
    """
    told: dict[int | None, Said] = {}
    bars: dict[int | None, Said] = {}
    when: dict[int | None, float | None] = {}
    for line in lines:
        record = read.parse(line.text)
        found = said(line.text)
        if found is None:
            continue
        rank = found.rank if found.rank is not None else line.rank if line.rank is not None else record.rank
        found = replace(found, rank=rank, node=found.node or line.node or record.host)
        side = bars if found.bar else told
        side[rank] = _joined(side.get(rank), found)
        when[rank] = line.at if line.at is not None else when.get(rank)
    named = any(one.step is not None for one in told.values())
    out = []
    for rank in sorted({*told, *bars}, key=lambda rank: -1 if rank is None else rank):
        both = told.get(rank)
        if not named and rank in bars:
            both = _joined(bars[rank], both) if both is not None else bars[rank]
        if both is not None:
            out.append((both, when.get(rank)))
    return out


def _joined(before: Said | None, after: Said) -> Said:
    """What two lines say together; where both say something the later counts."""
    if before is None:
        return after
    kept: Mapping[str, object] = {
        field: value
        for field in ("step", "checkpoint_step", "collective", "step_seconds", "phase", "node", "gpu")
        if (value := getattr(after, field)) not in (None, "") or (field == "phase" and value == "")
    }
    return replace(before, **kept)  # type: ignore[arg-type]


def _count(text: str | None, most: int = _MOST) -> int | None:
    if not text or len(text) > 19 or not text.isascii() or not text.isdigit():
        return None
    value = int(text)
    return value if value <= most else None


def _positive(text: str | None) -> float | None:
    if not text or len(text) > 32 or not re.fullmatch(r"[0-9.]+(?:e-?[0-9]{1,2})?", text):
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= 7 * 86_400 else None


def _seconds(groups: Mapping[str, str | None]) -> float | None:
    """The time of one step in seconds, from whichever unit the line has."""
    if (rate := _positive(groups.get("rate"))) is not None:
        return 1 / rate
    if (milliseconds := _positive(groups.get("ms"))) is not None:
        return milliseconds / 1000
    return _positive(groups.get("s"))
