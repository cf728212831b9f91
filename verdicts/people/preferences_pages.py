"""The page of one's own settings, and the same in the API."""

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response
from rest_framework.views import APIView

from rules.attempt import InputError
from verdicts import permissions, zones
from verdicts.given import refused
from verdicts.guard import Request, permitted
from verdicts.people import preferences
from verdicts.people.preferences import THEMES, Chosen


def _anybody(user: Any) -> bool:
    return bool(user.is_authenticated)


@require_http_methods(["GET", "HEAD", "POST"])
@permitted(_anybody)
def page(request: Request) -> HttpResponse:
    """Show and change what one set for oneself."""
    problem = ""
    chosen = preferences.of(request.user)
    if request.method == "POST":
        said = request.POST
        chosen = Chosen(said.get("zone", ""), said.get("theme", "system"), said.get("shortcuts") == "on")
        try:
            preferences.choose(chosen, by=request.user)
        except InputError as error:
            problem = str(error)
        else:
            messages.success(request, "Your settings are saved.")
            response = redirect("verdicts:preferences")
            preferences.carry(chosen, request, response)
            return response
    context = {
        "section": "preferences",
        "chosen": chosen,
        "zones": zones.names(),
        "themes": THEMES,
        "problem": problem,
        "browser_zone": request.COOKIES.get(preferences.BROWSER_ZONE, ""),
        "now": timezone.now(),
        "roles": sorted(group.name for group in request.user.groups.all()),
    }
    return render(request, "site/preferences.html", context, status=400 if problem else 200)


class MeSerializer(serializers.Serializer):
    """Who is asking, what they may, and how they read the console."""

    username = serializers.CharField(read_only=True)
    roles = serializers.ListField(child=serializers.CharField(), read_only=True)
    may = serializers.DictField(child=serializers.BooleanField(), read_only=True)
    zone = serializers.CharField(
        required=False, allow_blank=True, max_length=64, help_text="Empty: the zone of the browser."
    )
    theme = serializers.ChoiceField(choices=THEMES, required=False)
    shortcuts = serializers.BooleanField(required=False, help_text="Whether single keys move in the lists.")


class Me(APIView):
    """Oneself: account, roles and settings."""

    permission_classes = [IsAuthenticated]

    @extend_schema(responses={200: MeSerializer})
    def get(self, request: ApiRequest) -> Response:
        user = cast("User", request.user)
        chosen = preferences.of(user)
        told = {
            "username": user.get_username(),
            "roles": sorted(group.name for group in user.groups.all()),
            "may": {
                "read": permissions.may_read(user),
                "ingest": permissions.may_ingest(user),
                "attribute": permissions.may_attribute(user),
                "review": permissions.may_review(user),
                "administer": permissions.may_administer(user),
            },
            "zone": chosen.zone,
            "theme": chosen.theme,
            "shortcuts": chosen.shortcuts,
        }
        return Response(MeSerializer(told).data)

    @extend_schema(request=MeSerializer, responses={200: MeSerializer})
    def patch(self, request: ApiRequest) -> Response:
        order = MeSerializer(data=request.data)
        order.is_valid(raise_exception=True)
        user = cast("User", request.user)
        now, said = preferences.of(user), order.validated_data
        try:
            preferences.choose(
                Chosen(said.get("zone", now.zone), said.get("theme", now.theme), said.get("shortcuts", now.shortcuts)),
                by=user,
            )
        except InputError as error:
            raise refused(error) from error
        return self.get(request)
