"""What the tests of the store share."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from rules.attempt import Attempt, CollectorReport
from rules.observation import Observation
from rules.ruleset import Ruleset
from rules.verdict import Verdict
from tests.verdicts.builders import a_ruleset, a_user, an_engine_verdict, headlined
from verdicts import conclude, waking


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that workers were woken for; no broker is asked."""
    woken: list[str] = []

    def send_task(name: str, **options: Any) -> None:
        woken.append(name)

    monkeypatch.setattr(waking.current_app, "send_task", send_task)
    monkeypatch.setattr(waking, "_away_until", [0.0])
    monkeypatch.setattr(waking, "_lately", {})
    return woken


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> list[Callable[..., Verdict]]:
    """An engine that says which evidence it saw; put another one into the list to replace it."""

    def says_what_it_saw(
        attempt: Attempt,
        observations: Sequence[Observation],
        reports: Sequence[CollectorReport],
        ruleset: Ruleset,
        *,
        mode: str,
    ) -> Verdict:
        return an_engine_verdict(attempt, headline=headlined(observations), coverage=list(reports), mode=mode)

    engines: list[Callable[..., Verdict]] = [says_what_it_saw]

    def last_one(*args: Any, **more: Any) -> Verdict:
        return engines[-1](*args, **more)

    monkeypatch.setattr(conclude, "attribute", last_one)
    monkeypatch.setattr(conclude, "current_ruleset", a_ruleset)
    return engines


@pytest.fixture
def client_of(db: None) -> Callable[..., APIClient]:
    """An API client of a new user in the groups given."""

    def make(*groups: str) -> APIClient:
        client = APIClient()
        client.force_authenticate(a_user("-".join(groups) or "nobody", *groups))
        return client

    return make


@pytest.fixture
def as_(client: Client) -> Callable[..., Client]:
    """The browser's client, logged in as somebody of the groups named."""

    def log_in(*groups: str) -> Client:
        client.force_login(a_user("-".join(groups) or "nobody", *groups))
        return client

    return log_in
