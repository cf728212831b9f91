"""The accounts of the demo: enough of them that recovery can be tried."""

import pytest
from django.contrib.auth.models import User

from attribution_site.management.commands import prepare_demo
from recovery import permissions

pytestmark = pytest.mark.django_db


def test_the_demo_can_write_a_policy_propose_and_have_somebody_else_approve() -> None:
    made = prepare_demo.accounts(renew=False)
    people = list(User.objects.filter(username__in=made))
    assert len(set(made.values())) == len(people) == 4
    assert sum(person.has_perm(permissions.DECIDE) for person in people) >= 2
    assert any(person.has_perm(permissions.WRITE_POLICY) for person in people)
    assert prepare_demo.accounts(renew=False) == {}
