"""Who began a replay or brought its rules: somebody else says whether their changes are right."""

from recovery.models import Replay
from recovery.replay.words import ReplayKind
from verdicts.models import RulesetVersion

#: Actors that are a person by name: of the site, or of the machine where the command was called.
_PEOPLE = ("user:", "system:command-line ")


def concerned(replay: Replay) -> dict[str, str]:
    """The people, by the name of their account, who are not the ones to accept a replay's changes, each with why.

    A ruleset has no author that Inquest knows: it stands for whoever was the first to try it, before verdicts used it.
    """
    found = {}
    if replay.kind == ReplayKind.RULES:
        first = Replay.objects.filter(ruleset=replay.ruleset_id).order_by("created_at", "pk").first()
        used = RulesetVersion.objects.filter(digest=replay.ruleset_id).values_list("first_used_at", flat=True).first()
        if first is not None and (used is None or first.created_at < used):
            found[_person(first.actor)] = "You were the first to try these rules"
    found[_person(replay.actor)] = "You began this replay"
    found.pop("", None)
    return found


def _person(actor: str) -> str:
    """The account's name; nothing where a part of the system did it."""
    return next((actor.removeprefix(kind) for kind in _PEOPLE if actor.startswith(kind)), "")
