"""The pages of what keeps recovery from harm: exclusions, shared causes, brakes and vetoes."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from recovery import brakes, exclusions, incidents, permissions
from recovery.models import Brake, Exclusion, Incident, Veto
from recovery.review.guard_forms import ExclusionsForm, IncidentsForm, VetoesForm, brakes_before, brakes_pulled
from recovery.words import BrakeKind, VetoKind
from verdicts.guard import Request, part_wanted, permitted
from verdicts.listing.paging import page_of
from verdicts.models import Cluster
from verdicts.permissions import may_read
from verdicts.storable import storable_text

MOST_BEFORE = 20
VETO_WORDS = {VetoKind.NODE: "a node", VetoKind.JOB: "a job", VetoKind.GROUP: "a switch, rack or other shared element"}


def may(permission: str) -> Callable[[Any], bool]:
    """Whether somebody has a permission, as `permitted` asks."""
    return lambda user: user.has_perm(permission)


def cluster_names() -> list[str]:
    """The clusters that have a name."""
    return [name for name in Cluster.objects.order_by("name").values_list("name", flat=True) if name]


@require_safe
@permitted(may_read)
def exclusion_list(request: Request) -> HttpResponse:
    """The nodes that are kept away, by default those that are so now."""
    form = ExclusionsForm(request.GET)
    context = {
        "section": "recovery",
        "tab": "exclusions",
        "form": form,
        "page": page_of(form.rows(), request.GET.get("page")),
        "may_lift": request.user.has_perm(permissions.LIFT),
    }
    part = part_wanted(request, "results")
    return render(request, "recovery/exclusions.html#results" if part else "recovery/exclusions.html", context)


@require_POST
@permitted(may(permissions.LIFT))
def lift(request: Request, exclusion_id: int) -> HttpResponse:
    """Let a node be used again."""
    try:
        exclusions.lift(exclusion_id, by=request.user, reason=request.POST.get("reason", "").strip())
    except Exclusion.DoesNotExist:
        raise Http404 from None
    except ValueError as error:
        messages.error(request, sentence(error))
    else:
        messages.success(request, "The exclusion is lifted.")
    return redirect(_back(request))


def _back(request: Request) -> str:
    """The page that the form was on, if it is one of ours."""
    came_from = request.headers.get("Referer", "")
    ours = url_has_allowed_host_and_scheme(came_from, {request.get_host()}, require_https=request.is_secure())
    # Where a decision was refused, the page has an address that takes nothing but decisions.
    return came_from.removesuffix("decision/") if ours else "recovery:exclusions"


@require_safe
@permitted(may_read)
def incident_list(request: Request) -> HttpResponse:
    """Causes that several failures share."""
    form = IncidentsForm(request.GET)
    context = {
        "section": "recovery",
        "tab": "incidents",
        "form": form,
        "page": page_of(form.rows(), request.GET.get("page")),
        "may_close": request.user.has_perm(permissions.DECIDE),
    }
    part = part_wanted(request, "results")
    return render(request, "recovery/incidents.html#results" if part else "recovery/incidents.html", context)


@require_POST
@permitted(may(permissions.DECIDE))
def incident_close(request: Request, incident_id: UUID) -> HttpResponse:
    """Say that a shared cause is mended."""
    try:
        incidents.close(incident_id, by=request.user, reason=request.POST.get("reason", "").strip())
    except Incident.DoesNotExist:
        raise Http404 from None
    except ValueError as error:
        messages.error(request, sentence(error))
    else:
        messages.success(request, "The incident is closed.")
    return redirect("recovery:incidents")


@require_safe
@permitted(may_read)
def brake_list(request: Request) -> HttpResponse:
    """The kill switch, the brakes and the vetoes."""
    return _brakes(request)


def _brakes(request: Request, problem: str = "", typed: Any = None, veto: Any = None) -> HttpResponse:
    form = VetoesForm(request.GET)
    context = {
        "section": "recovery",
        "tab": "brakes",
        "killed": brakes.killed(),
        "brakes": list(brakes_pulled()),
        "before": list(brakes_before()[:MOST_BEFORE]),
        "form": form,
        "page": page_of(form.rows(), request.GET.get("page")),
        "clusters": cluster_names(),
        "veto_kinds": [(kind.value, VETO_WORDS[kind]) for kind in VetoKind],
        "problem": problem,
        "typed": typed or {},
        "veto": veto or {},
        "may_pull": request.user.has_perm(permissions.PULL_BRAKE),
        "may_release": request.user.has_perm(permissions.RELEASE_BRAKE),
        "may_veto": request.user.has_perm(permissions.VETO),
    }
    return render(request, "recovery/brakes.html", context, status=400 if problem else 200)


@require_POST
@permitted(may(permissions.PULL_BRAKE))
def brake_pull(request: Request) -> HttpResponse:
    """Stop new actions on a cluster or on all."""
    said = request.POST
    try:
        cluster = cluster_of(said["cluster"]) if said.get("cluster") else None
        brakes.pull(cluster, BrakeKind.STOP, said.get("reason", "").strip(), request.user)
    except ValueError as error:
        return _brakes(request, sentence(error), typed=said)
    messages.success(request, "Stopped: no new action begins.")
    return redirect("recovery:brakes")


@require_POST
@permitted(may(permissions.PULL_BRAKE))
def brake_release(request: Request, brake_id: UUID) -> HttpResponse:
    """Release a brake, with a reason: a pace by whoever may pull one, a stop by fewer."""
    try:
        brakes.release(brake_id, by=request.user, reason=request.POST.get("reason", "").strip())
    except Brake.DoesNotExist:
        raise Http404 from None
    except brakes.NotPermitted as error:
        raise PermissionDenied(str(error)) from error
    except ValueError as error:
        return _brakes(request, sentence(error))
    messages.success(request, "Released.")
    return redirect("recovery:brakes")


@require_POST
@permitted(may(permissions.VETO))
def veto_set(request: Request) -> HttpResponse:
    """Protect a node, a job or a shared element."""
    said = request.POST
    try:
        brakes.set_veto(
            cluster_of(said.get("cluster", "")),
            veto_kind(said.get("kind", "")),
            said.get("value", "").strip(),
            reason=said.get("reason", "").strip(),
            by=request.user,
            until=until(hours_of(said.get("hours", "").strip())),
        )
    except ValueError as error:
        return _brakes(request, sentence(error), veto=said)
    messages.success(request, "It is protected.")
    return redirect("recovery:brakes")


@require_POST
@permitted(may(permissions.VETO))
def veto_end(request: Request, veto_id: UUID) -> HttpResponse:
    """Protect something no longer."""
    try:
        brakes.end_veto(veto_id, by=request.user, reason=request.POST.get("reason", "").strip())
    except Veto.DoesNotExist:
        raise Http404 from None
    except ValueError as error:
        messages.error(request, sentence(error))
    else:
        messages.success(request, "The veto is ended.")
    return redirect("recovery:brakes")


def veto_kind(text: str) -> VetoKind:
    """What a veto protects. Raises ValueError."""
    try:
        return VetoKind(text)
    except ValueError:
        raise ValueError(f"kind: one of {', '.join(VetoKind)}") from None


def hours_of(text: str) -> int | None:
    """A number of hours; None where nothing was said. Raises ValueError."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 24 * 365):
        raise ValueError("hours: a whole number from 1 to 8760, or nothing")
    return int(text)


def until(hours: int | None) -> datetime | None:
    """The time in so many hours; None for no end."""
    return timezone.now() + timedelta(hours=hours) if hours else None


def cluster_of(name: str) -> Cluster:
    """A cluster by its name. Raises ValueError."""
    found = Cluster.objects.filter(name=storable_text(name)).first()
    if found is None:
        raise ValueError(f"cluster: there is none of the name {name!r}")
    return found


def sentence(error: Exception) -> str:
    """An error of a writer as a sentence for people."""
    text = str(error)
    return text[:1].upper() + text[1:].rstrip(".") + "."
