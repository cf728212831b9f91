"""Telling a job's owner: the one action that goes to a person and not to a scheduler.

By mail, to the account here that has the name of the job's user. A mail program shows the same mail once: its name is
the action's mark.
"""

import smtplib
from collections.abc import Sequence
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMessage

from recovery.actuators.base import Actuator, Aim, Look, MaybeApplied, Refused
from recovery.actuators.stepper import Answer
from recovery.models import Proposal
from recovery.plan import Plan
from recovery.words import ActionKind
from verdicts.logs.raw_text import spelled
from verdicts.people.subscribe import mail_address


class Notify(Actuator):
    """The way to the owner of one job. That the mail server took it is all that can be seen."""

    kind: ClassVar[str] = "mail"

    def __init__(self, proposal: Proposal, plan: Plan, calls: Sequence[dict[str, Any]]) -> None:
        super().__init__(can=frozenset({ActionKind.NOTIFY}), settle=60.0, deadline=3600.0)
        self._proposal, self._plan, self._calls = proposal, plan, calls

    def steps(self, action: ActionKind) -> tuple[str, ...]:
        return ("tell",)

    def undo(self, action: ActionKind) -> tuple[str, ...]:
        return ()

    def look(self, aim: Aim) -> Look:
        told = any(call["answer"] == Answer.OK.value for call in self._calls)
        return Look(done=frozenset({"tell"} if told else set()), facts={"user": self._proposal.attempt.user})

    def do(self, step: str, aim: Aim, seen: Look) -> None:
        user = self._proposal.attempt.user
        owner = User.objects.filter(username=user, is_active=True).first() if user else None
        address = mail_address(owner) if owner else ""
        if not address:
            raise Refused(f"{user or 'its owner'} has no account with a mail address here: tell them yourself")
        page = f"{str(settings.INQUEST_PUBLIC_URL).rstrip('/')}/recovery/proposals/{self._proposal.pk}/"
        message = EmailMessage(
            subject=spelled(f"[Inquest] job {self._plan.job_id}").replace("\n", " ")[:150],
            body=f"{self._plan.says}\n\n{self._plan.reason}\n\n{page}\n",
            from_email=settings.DEFAULT_FROM_EMAIL,
            to=[address],
            headers={"Message-ID": f"<{aim.mark}@inquest>", "Auto-Submitted": "auto-generated"},
        )
        try:
            message.send()
        except (OSError, smtplib.SMTPException) as error:
            raise MaybeApplied(f"the mail server: {type(error).__name__}: {str(error)[:300]}") from error

    def probe(self) -> str:
        return "mail"
