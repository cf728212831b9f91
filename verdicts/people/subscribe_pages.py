"""The page of one's subscriptions and mentions, and the same in the API."""

from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import Count, Max, Q
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response
from rest_framework.views import APIView

from rules.attempt import InputError
from verdicts import permissions
from verdicts.choices import Channel, RequestState
from verdicts.given import refused
from verdicts.guard import Request, permitted
from verdicts.listing.filter_form import FilterForm, given
from verdicts.listing.read import asked
from verdicts.models import Delivery, Subscription
from verdicts.people import subscribe, talk
from verdicts.permissions import MayRead
from verdicts.record import NotPermitted

MOST_DELIVERIES = 20
MOST_MENTIONS = 50


@require_http_methods(["GET", "HEAD", "POST"])
@permitted(permissions.may_read)
def page(request: Request) -> HttpResponse:
    """One's subscriptions, what became of the last deliveries, who mentioned one, and a form for another."""
    problem = ""
    said = request.POST if request.method == "POST" else request.GET
    if request.method == "POST":
        channel, _, webhook = said.get("to", "").partition(":")
        try:
            made = subscribe.subscribe(
                said.get("name", ""), said.get("query", ""), _channel(channel), by=request.user, webhook=webhook
            )
        except (InputError, NotPermitted) as error:
            problem = str(error)
        else:
            messages.success(request, f"You will be told of new verdicts: {made.name}.")
            return redirect("verdicts:subscriptions")
    own = list(subscribe.subscriptions_of(request.user).annotate(**_TALLY))
    mentions = list(talk.mentions_of(request.user)[:MOST_MENTIONS])
    context: dict[str, Any] = {
        "section": "subscriptions",
        "problem": problem,
        "name": said.get("name", ""),
        "query": said.get("query", "").removeprefix("?"),
        "to": said.get("to", ""),
        "subscriptions": [(one, _chips(one.query)) for one in own],
        "mail": subscribe.mail_address(request.user),
        "mail_set_up": bool(settings.EMAIL_URL),
        "webhooks": sorted(settings.WEBHOOKS) if permissions.may_use_webhooks(request.user) else [],
        "deliveries": list(
            Delivery.objects.filter(subscription__owner=request.user)
            .select_related("subscription", "verdict")
            .defer("verdict__body", "verdict__body_json")[:MOST_DELIVERIES]
        ),
        "mentions": mentions,
    }
    return render(request, "telling/page.html", context, status=400 if problem else 200)


_TALLY: dict[str, Any] = {
    "sent": Count("deliveries", filter=Q(deliveries__state=RequestState.DONE.value)),
    "waiting": Count("deliveries", filter=Q(deliveries__state__in=["pending", "running"])),
    "last": Max("deliveries__finished_at", filter=Q(deliveries__state=RequestState.DONE.value)),
}


def _channel(word: str) -> Channel:
    if word not in set(Channel):
        raise InputError(f"channel: {word!r} is none of {', '.join(Channel)}")
    return Channel(word)


def _chips(query: str) -> list[Any]:
    """A filter in words."""
    return list(FilterForm(asked(given(QueryDict(query)))).chips)


@require_POST
@permitted(permissions.may_read)
def change(request: Request, subscription_id: UUID) -> HttpResponse:
    """Pause, go on or end one subscription of one's own."""
    try:
        if request.POST.get("do") == "end":
            subscribe.unsubscribe(subscription_id, by=request.user)
        else:
            subscribe.switch(subscription_id, on=request.POST.get("do") == "go-on", by=request.user)
    except Subscription.DoesNotExist:
        raise Http404 from None
    return redirect("verdicts:subscriptions")


@require_POST
@permitted(permissions.may_read)
def seen(request: Request) -> HttpResponse:
    """All mentions of oneself were seen."""
    talk.mark_seen(request.user)
    return redirect("verdicts:subscriptions")


class SubscriptionSerializer(serializers.ModelSerializer[Subscription]):
    """A subscription of one's own. `query` is the filters of the list, as in its address."""

    channel = serializers.ChoiceField(choices=[channel.value for channel in Channel])

    class Meta:
        model = Subscription
        fields = ("id", "name", "query", "channel", "webhook", "active", "problem", "created_at")
        read_only_fields = ("id", "active", "problem", "created_at")
        validators: list[Any] = []


class SwitchSerializer(serializers.Serializer):
    """Whether a subscription is on."""

    active = serializers.BooleanField()


class OwedSerializer(serializers.ModelSerializer[Delivery]):
    """One verdict that was owed to a subscription."""

    class Meta:
        model = Delivery
        fields = ("id", "verdict", "state", "created_at", "due_at", "tries", "error", "finished_at")


class Subscriptions(APIView):
    """One's own subscriptions: list them, or make one."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="subscriptions_list", responses={200: SubscriptionSerializer(many=True)})
    def get(self, request: ApiRequest) -> Response:
        own = subscribe.subscriptions_of(cast("User", request.user))
        return Response({"count": len(own), "results": SubscriptionSerializer(own, many=True).data})

    @extend_schema(request=SubscriptionSerializer, responses={201: SubscriptionSerializer})
    def post(self, request: ApiRequest) -> Response:
        order = SubscriptionSerializer(data=request.data)
        order.is_valid(raise_exception=True)
        said = order.validated_data
        try:
            made = subscribe.subscribe(
                said["name"],
                said.get("query", ""),
                Channel(said["channel"]),
                by=cast("User", request.user),
                webhook=said.get("webhook", ""),
            )
        except NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        except InputError as error:
            raise refused(error) from error
        return Response(SubscriptionSerializer(made).data, status=status.HTTP_201_CREATED)


class SubscriptionDetail(APIView):
    """One subscription of one's own, with its last deliveries."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="subscriptions_retrieve", responses={200: OwedSerializer})
    def get(self, request: ApiRequest, subscription_id: UUID) -> Response:
        own = subscribe.subscriptions_of(cast("User", request.user)).filter(pk=subscription_id).first()
        if own is None:
            raise NotFound
        deliveries = OwedSerializer(own.deliveries.all()[:MOST_DELIVERIES], many=True).data
        return Response(SubscriptionSerializer(own).data | {"deliveries": deliveries})

    @extend_schema(request=SwitchSerializer, responses={200: SubscriptionSerializer})
    def patch(self, request: ApiRequest, subscription_id: UUID) -> Response:
        order = SwitchSerializer(data=request.data)
        order.is_valid(raise_exception=True)
        try:
            subscribe.switch(subscription_id, on=order.validated_data["active"], by=cast("User", request.user))
        except Subscription.DoesNotExist:
            raise NotFound from None
        return self.get(request, subscription_id)

    @extend_schema(responses={204: None})
    def delete(self, request: ApiRequest, subscription_id: UUID) -> Response:
        try:
            subscribe.unsubscribe(subscription_id, by=cast("User", request.user))
        except Subscription.DoesNotExist:
            raise NotFound from None
        return Response(status=status.HTTP_204_NO_CONTENT)
