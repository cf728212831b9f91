"""The pages of policies: which there are, what each may do where, on what record, and what a change would do."""

import math
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from recovery import permissions
from recovery.models import Policy, PolicyVersion, Promotion, Scope
from recovery.policies import find, meter, record, trial
from recovery.policies.diff import Difference, differences, tightened
from recovery.policies.forms import START, body_of, text_of
from recovery.policies.meter import Labelled
from recovery.review.guard_pages import cluster_names, may, sentence
from recovery.words import PolicyMode
from rules.attempt import InputError
from verdicts.guard import Request, keeps_typed, permitted, typed_before
from verdicts.permissions import may_read
from verdicts.storable import storable_text

MOST_PROMOTIONS = 20
DAYS = (7, 14, 30, 90)


@require_safe
@permitted(may_read)
def policy_list(request: Request) -> HttpResponse:
    """All policies with their modes."""
    rows = list(find.policies())
    context = {
        "section": "recovery",
        "tab": "policies",
        "policies": [(policy, find.rule_of(find.present(policy))) for policy in rows],
        "may_write": request.user.has_perm(permissions.WRITE_POLICY),
    }
    return render(request, "recovery/policies.html", context)


@require_safe
@permitted(may_read)
def policy_detail(request: Request, name: str) -> HttpResponse:
    """One policy: what it says, where it may do what, and on what record."""
    return _detail(request, _policy(name))


def _detail(
    request: Request, policy: Policy, problem: str = "", typed: Mapping[str, Any] | None = None
) -> HttpResponse:
    """The page; `typed` is what was refused, with the form that it goes back into."""
    versions = list(policy.versions.all())
    context = {
        "section": "recovery",
        "tab": "policies",
        "policy": policy,
        "version": versions[0],
        "text": text_of(versions[0].body),
        "versions": [(version, _changes(version, older)) for version, older in _pairs(versions)],
        "scopes": _scopes(policy, request.user),
        "enough": meter.ENOUGH,
        "may_write": request.user.has_perm(permissions.WRITE_POLICY),
        "may_promote": request.user.has_perm(permissions.PROMOTE),
        "may_demote": request.user.has_perm(permissions.DEMOTE),
        "problem": problem,
        "typed": typed or {},
    }
    return render(request, "recovery/policy.html", context, status=400 if problem else 200)


def _pairs(versions: list[PolicyVersion]) -> list[tuple[PolicyVersion, PolicyVersion | None]]:
    """Each version with the one before it."""
    older: list[PolicyVersion | None] = [*versions[1:], None]
    return list(zip(versions, older, strict=True))


def _changes(version: PolicyVersion, older: PolicyVersion | None) -> dict[str, Any]:
    if older is None:
        return {"differences": [], "kept": False}
    return {"differences": shown(older.body, version.body), "kept": tightened(older.body, version.body)}


def shown(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """The differences of two bodies as people read them."""
    return [Difference(one.field, _words(one.before), _words(one.after)) for one in differences(before, after)]


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "any"
    return (
        {True: "yes", False: "no", None: "not set"}[value] if value is None or isinstance(value, bool) else str(value)
    )


def _scopes(policy: Policy, user: User) -> list[dict[str, Any]]:
    scopes = list(policy.scopes.prefetch_related(find.with_promotions()))
    for scope in scopes:
        scope.policy = policy
    cases = find.cases_by_scope(scopes)
    return [_scope(scope, cases[scope.pk], user) for scope in scopes]


def _scope(scope: Scope, cases: list[Labelled], user: User) -> dict[str, Any]:
    """A scope with its record and what may be done about it by whom."""
    reading = meter.read(cases, now=timezone.now())
    asked = find.open_promotion(scope)
    mode = PolicyMode(scope.mode)
    lower = {
        PolicyMode.AUTOMATIC: (PolicyMode.ADVISORY, PolicyMode.OBSERVE),
        PolicyMode.ADVISORY: (PolicyMode.OBSERVE,),
    }
    return {
        "row": scope,
        "reading": reading,
        # By its logarithm, since right cases multiply: half of the way is half of the cases.
        "part": min(max(math.log(reading.wealth) / math.log(meter.ENOUGH), 0.0), 1.0),
        "apart": meter.apart(cases),
        "step": find.step_up(scope, reading, user),
        "asked": asked,
        "second_wanting": find.second_wanting(asked, user) if asked else [],
        "record_wanting": find.record_wanting(reading),
        "lower": [word.value for word in lower.get(mode, ())],
        "before": list(scope.promotions.all())[:MOST_PROMOTIONS],
    }


@require_http_methods(["GET", "HEAD", "POST"])
@keeps_typed(lambda: reverse("recovery:policy-new"), "name", "rule", "reason", anchor="#form")
@permitted(may(permissions.WRITE_POLICY))
def policy_new(request: Request) -> HttpResponse:
    """Write a policy; a preview says what it would have done."""
    return _edit(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@keeps_typed(lambda name: reverse("recovery:policy-change", args=[name]), "rule", "reason", anchor="#form")
@permitted(may(permissions.WRITE_POLICY))
def policy_change(request: Request, name: str) -> HttpResponse:
    """Change a policy; a preview shows what differs and what it would have done."""
    return _edit(request, _policy(name))


def _edit(request: Request, policy: Policy | None) -> HttpResponse:
    present = find.present(policy) if policy else None
    said = {"name": "", "rule": text_of(present.body) if present else START, "reason": "", "days": "14", "cluster": ""}
    said["seen"] = str(present.number) if present else ""
    said |= typed_before(request, request.path)
    problem, field, preview = "", "", None
    if request.method == "POST":
        said |= {key: request.POST.get(key, "") for key in ("name", "rule", "reason", "days", "cluster")}
        said["seen"] = request.POST.get("seen", said["seen"])
        try:
            body = body_of(said["rule"])
            if "preview" in request.POST:
                preview = _preview(body, present, said)
            else:
                return _saved(request, policy, body, said)
        except (InputError, record.Changed, record.NotPromotable) as error:
            named, colon, _ = str(error).partition(": ")
            field = (named if named in ("name", "reason") else "rule") if colon else ""
            problem = sentence(error)
    context = {
        "section": "recovery",
        "tab": "policies",
        "policy": policy,
        "version": present,
        "typed": said,
        "problem": problem,
        "field": field,
        "preview": preview,
        "days": DAYS,
        "clusters": cluster_names(),
    }
    return render(request, "recovery/policy_edit.html", context, status=400 if problem else 200)


def _saved(request: Request, policy: Policy | None, body: Mapping[str, Any], said: Mapping[str, str]) -> HttpResponse:
    if policy is None:
        made = record.create(said["name"].strip(), body, by=request.user, reason=said["reason"])
        messages.success(request, "The policy is written. It observes wherever it applies, until somebody promotes it.")
        return redirect("recovery:policy", made.name)
    seen = int(said["seen"]) if said["seen"].isdecimal() and len(said["seen"]) < 8 else 0
    version = record.change(policy.pk, body, by=request.user, reason=said["reason"], seen=seen)
    messages.success(request, f"Version {version.number} is written.")
    return redirect("recovery:policy", policy.name)


def _preview(body: Mapping[str, Any], present: PolicyVersion | None, said: Mapping[str, str]) -> dict[str, Any]:
    """What would change, and what the body would have done. Raises InputError."""
    tried = trial.run(body, days=days_of(said["days"]), cluster=storable_text(said["cluster"]))
    spelled = msgspec.to_builtins(record.checked(body))
    return {
        "trial": tried,
        "rows": tried.rows[: trial.MOST_ROWS],
        "differences": shown(present.body, spelled) if present else [],
        "kept": bool(present) and tightened(present.body, spelled) if present else False,
    }


def days_of(text: str) -> int:
    """Over how many days a policy is tried. Raises InputError."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= trial.MOST_DAYS):
        raise InputError(f"days: a whole number from 1 to {trial.MOST_DAYS}")
    return int(text[:4])


@require_POST
@permitted(may(permissions.WRITE_POLICY))
def policy_retire(request: Request, name: str) -> HttpResponse:
    """End a policy, with a reason."""
    policy = _policy(name)
    try:
        record.retire(policy.pk, by=request.user, reason=request.POST.get("reason", ""))
    except ValueError as error:
        return _detail(request, policy, sentence(error), request.POST)
    messages.success(request, "The policy is retired: it proposes nothing more.")
    return redirect("recovery:policy", name)


@require_POST
@permitted(may_read)
def promote(request: Request, scope_id: UUID) -> HttpResponse:
    """Ask for a scope's next mode."""
    scope = _scope_row(scope_id)
    try:
        to = mode_of(request.POST.get("to", ""))
        done = record.ask_promotion(scope_id, to, by=request.user, reason=request.POST.get("reason", ""))
    except (ValueError, PermissionError) as error:
        return _detail(request, _policy(scope.policy.name), sentence(error), _typed(request, "promote", scope_id))
    waits = "It is promoted." if done.granted else "Asked for. A second person with the right to promote has to agree."
    messages.success(request, waits)
    return redirect("recovery:policy", scope.policy.name)


@require_POST
@permitted(may_read)
def demote(request: Request, scope_id: UUID) -> HttpResponse:
    """Lower a scope's mode at once."""
    scope = _scope_row(scope_id)
    try:
        to = mode_of(request.POST.get("to", ""))
        record.demote_by_hand(scope_id, to, by=request.user, reason=request.POST.get("reason", ""))
    except (ValueError, PermissionError) as error:
        return _detail(request, _policy(scope.policy.name), sentence(error), _typed(request, "demote", scope_id))
    messages.success(request, "It is demoted, from now on.")
    return redirect("recovery:policy", scope.policy.name)


@require_POST
@permitted(may_read)
def promotion(request: Request, promotion_id: UUID) -> HttpResponse:
    """Agree to a promotion as the second person, or decline it."""
    row = Promotion.objects.select_related("scope__policy").filter(pk=promotion_id).first()
    if row is None:
        raise Http404
    try:
        if "agree" in request.POST:
            record.second(promotion_id, by=request.user)
        else:
            record.decline(promotion_id, by=request.user, reason=request.POST.get("reason", ""))
    except (ValueError, PermissionError) as error:
        return _detail(
            request, _policy(row.scope.policy.name), sentence(error), _typed(request, "decline", row.scope_id)
        )
    messages.success(request, "It is promoted." if "agree" in request.POST else "The promotion is declined.")
    return redirect("recovery:policy", row.scope.policy.name)


def mode_of(text: str) -> PolicyMode:
    """A mode by its word. Raises InputError."""
    if text not in set(PolicyMode):
        raise InputError(f"to: one of {', '.join(PolicyMode)}")
    return PolicyMode(text)


def _policy(name: str) -> Policy:
    policy = find.policies().filter(name=name).first()
    if policy is None:
        raise Http404
    return policy


def _typed(request: Request, form: str, scope_id: UUID) -> dict[str, Any]:
    """What was typed into one form of one scope: the others of the page stay empty."""
    return {"form": form, "scope": scope_id, "reason": request.POST.get("reason", "")}


def _scope_row(scope_id: UUID) -> Scope:
    scope = Scope.objects.select_related("policy").filter(pk=scope_id).first()
    if scope is None:
        raise Http404
    return scope
