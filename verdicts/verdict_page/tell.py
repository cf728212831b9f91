"""A verdict with what happened around it, read from the store: for its page and for the API."""

from dataclasses import dataclass

from rules.ruleset import Ruleset
from verdicts.choices import Mode
from verdicts.conclude import current_ruleset
from verdicts.logs.near import Near, beside
from verdicts.models import Comment, Review, Verdict
from verdicts.people import talk
from verdicts.verdict_page.presentation import findings_by_ref
from verdicts.verdict_page.timeline import Deed, Timeline, timeline
from verdicts.wording import LABELS

#: Versions of a verdict that are compared with each other on its page; a longer history is listed in the API.
MOST_VERSIONS = 12
MOST_COMMENTS = 200
#: Lines whose time of reading is looked up for the timeline.
MOST_READ = 500


@dataclass(frozen=True, kw_only=True)
class Told:
    """An attempt's verdicts, the newest first, what people said, and the timeline of the one that is looked at."""

    history: list[Verdict]
    reviews: list[Review]
    comments: list[Comment]
    line: Timeline
    near: dict[str, Near]


def told(verdict: Verdict, ruleset: Ruleset | None = None) -> Told:
    """Read what goes with a verdict. `history` has one more than is shown, where there are more."""
    attempt = verdict.attempt
    history = list(Verdict.objects.history_of(attempt.pk).defer("body_json")[: MOST_VERSIONS + 1])
    reviews = list(verdict.reviews.select_related("author"))
    comments = list(talk.comments_about(attempt.pk)[:MOST_COMMENTS])
    found = beside(attempt, verdict.body, list(findings_by_ref(verdict.body))[:MOST_READ])
    line = timeline(
        verdict.body,
        ruleset or current_ruleset(),
        deeds=_deeds(history[:MOST_VERSIONS], reviews, comments),
        observed=found.read_at,
    )
    return Told(history=history, reviews=reviews, comments=comments, line=line, near=found.near)


def _deeds(history: list[Verdict], reviews: list[Review], comments: list[Comment]) -> list[Deed]:
    """What people did about a verdict, and when each of the attempt's verdicts was made."""
    deeds = [
        Deed(
            at=version.created_at.isoformat(),
            title=f"Verdict {version.number} made",
            detail="quick look" if version.mode == Mode.FAST else "",
            link="#versions",
        )
        for version in history
    ]
    deeds += [
        Deed(
            at=review.created_at.isoformat(),
            title=f"{review.author.get_username()}: {LABELS[review.label].text.lower()}",
            detail="review",
            link="#reviews",
        )
        for review in reviews
    ]
    return deeds + [
        Deed(
            at=comment.created_at.isoformat(),
            title=f"{comment.author.get_username()}: “{comment.text[:80]}”",
            detail="comment",
            link=f"#comment-{comment.pk}",
        )
        for comment in comments
    ]
