"""Replays over the API: what the pages show and do, with the same parameters and permissions."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponseBase
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, status
from rest_framework.exceptions import NotFound, PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from recovery import permissions
from recovery.models import Replay, ReplayItem
from recovery.permissions import ReadOr
from recovery.replay import begin, find, gate, judge, rulesets
from recovery.replay import serializers as shapes
from recovery.replay.export import FORMS, exported
from recovery.replay.form import ItemsForm, ReplaysForm, wish_of
from recovery.replay.words import Judgement
from rules.attempt import InputError
from verdicts.api import Conflict
from verdicts.fleet.api import understood
from verdicts.given import refused, user_of
from verdicts.listing.api_paging import Pages
from verdicts.listing.form import ListForm
from verdicts.permissions import ReadOnly
from verdicts.record import NotPermitted


def _parameters(form: type[ListForm]) -> list[OpenApiParameter]:
    return [
        *(OpenApiParameter(name, str, many=True, enum=[word for word, _ in form.sets[name]]) for name in form.sets),
        *(OpenApiParameter(name, str, enum=[word for word, _ in form.choices[name] if word]) for name in form.choices),
        *(OpenApiParameter(name, str) for name in form.texts),
        *(OpenApiParameter(name, OpenApiTypes.DATETIME) for name in form.times),
    ]


def _one(pk: UUID) -> Replay:
    return get_object_or_404(find.replays(), pk=pk)


def _detail(pk: UUID) -> dict[str, Any]:
    row = _one(pk)
    more = {
        "counts": find.counts(row),
        "groups": find.groups(row),
        "cannot": find.reasons(row),
        "gate": gate.gates_of(row),
    }
    for name, value in more.items():
        setattr(row, name, value)
    return dict(shapes.ReplaySerializer(row).data)


class Replays(generics.ListAPIView[Replay]):
    """Replays: list them, or begin one."""

    permission_classes = [ReadOr]
    write_permission = permissions.START_REPLAY
    pagination_class = Pages
    filter_backends: list[Any] = []
    serializer_class = shapes.ReplayRowSerializer

    def get_queryset(self) -> QuerySet[Replay]:
        form = ReplaysForm(self.request.query_params)
        understood(form)
        return form.rows()

    @extend_schema(operation_id="replays_list", parameters=_parameters(ReplaysForm))
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="replays_create", request=shapes.WishSerializer, responses={201: shapes.ReplaySerializer}
    )
    def post(self, request: Request) -> Response:
        said = shapes.WishSerializer(data=request.data)
        said.is_valid(raise_exception=True)
        try:
            row = begin.begin_as(wish_of(said.validated_data), by=user_of(request))
        except InputError as error:
            raise refused(error) from error
        except begin.NotNow as error:
            raise Conflict(str(error)) from error
        except NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        return Response(_detail(row.pk), status=status.HTTP_201_CREATED)


class ReplayDetail(APIView):
    """One replay: how far it is, what it found by reason, and what it says of policies."""

    permission_classes = [ReadOnly]

    @extend_schema(operation_id="replays_retrieve", responses={200: shapes.ReplaySerializer})
    def get(self, request: Request, pk: UUID) -> Response:
        return Response(_detail(pk))


class Items(generics.ListAPIView[ReplayItem]):
    """The attempts of a replay, by default those that did not come out the same."""

    permission_classes = [ReadOnly]
    pagination_class = Pages
    filter_backends: list[Any] = []
    serializer_class = shapes.ItemSerializer

    def get_queryset(self) -> QuerySet[ReplayItem]:
        form = ItemsForm(self.request.query_params)
        understood(form)
        return form.rows(_one(self.kwargs["pk"]))

    @extend_schema(
        operation_id="replays_items_list",
        parameters=_parameters(ItemsForm),
        responses={200: shapes.ItemShape(many=True)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class ItemsFile(APIView):
    """The same as a file, whole: `items.csv` or `items.json`."""

    permission_classes = [ReadOnly]

    @extend_schema(
        operation_id="replays_items_file",
        parameters=_parameters(ItemsForm),
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request, pk: UUID, form: str) -> HttpResponseBase:
        if form not in FORMS:
            raise NotFound
        asked = ItemsForm(request.query_params)
        understood(asked)
        row = _one(pk)
        return exported(row, asked.rows(row), form)


class _Move(APIView):
    permission_classes = [ReadOr]
    write_permission = permissions.START_REPLAY
    move: Any

    def _moved(self, request: Request, pk: UUID) -> Response:
        try:
            type(self).move(pk, by=user_of(request))
        except Replay.DoesNotExist as error:
            raise NotFound from error
        except begin.NotNow as error:
            raise Conflict(str(error)) from error
        except NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        return Response(_detail(pk))


class Cancel(_Move):
    """Stop a replay; what is done is kept."""

    move = staticmethod(begin.cancel)

    @extend_schema(operation_id="replays_cancel", request=None, responses={200: shapes.ReplaySerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        return self._moved(request, pk)


class Resume(_Move):
    """Go on with a replay that was stopped."""

    move = staticmethod(begin.resume)

    @extend_schema(operation_id="replays_resume", request=None, responses={200: shapes.ReplaySerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        return self._moved(request, pk)


class Judge(APIView):
    """Accept or reject changes of a replay."""

    permission_classes = [ReadOr]
    write_permission = permissions.JUDGE_REPLAY

    @extend_schema(
        operation_id="replays_judge", request=shapes.JudgeSerializer, responses={200: shapes.JudgedSerializer}
    )
    def post(self, request: Request, pk: UUID) -> Response:
        order = shapes.JudgeSerializer(data=request.data)
        order.is_valid(raise_exception=True)
        said = order.validated_data
        if bool(said.get("items")) == said["all"]:
            raise ValidationError({"items": ["Name changes by their numbers, or say all."]})
        numbers = None if said["all"] else said["items"]
        try:
            number = judge.judge(pk, numbers, Judgement(said["judgement"]), by=user_of(request), reason=said["reason"])
        except Replay.DoesNotExist as error:
            raise NotFound from error
        except InputError as error:
            raise refused(error) from error
        except NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        return Response({"judged": number})


class Rulesets(APIView):
    """The rulesets that can be tried: those that verdicts used, and those that were tried before."""

    permission_classes = [ReadOnly]

    @extend_schema(operation_id="replays_rulesets", responses={200: shapes.TriedRulesetSerializer(many=True)})
    def get(self, request: Request) -> Response:
        used = [
            {"digest": one.digest, "rules": one.rules, "layers": one.layers, "used": True, "at": one.first_used_at}
            for one in rulesets.choices()[:500]
        ]
        tried = [
            {"digest": one.digest, "rules": one.rules, "layers": one.layers, "used": False, "at": one.kept_at}
            for one in rulesets.tried()[:500]
        ]
        return Response(shapes.TriedRulesetSerializer([*used, *tried], many=True).data)


class GateOf(APIView):
    """Whether policies may act by themselves on the word of a ruleset, by its digest."""

    permission_classes = [ReadOnly]

    @extend_schema(
        operation_id="replays_gate",
        parameters=[OpenApiParameter("ruleset", str, required=True)],
        responses={200: shapes.GateSerializer(many=True)},
    )
    def get(self, request: Request) -> Response:
        digest = request.query_params.get("ruleset", "")
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ValidationError({"ruleset": ["The whole digest: 64 digits."]})
        told = [gate.of_scope(scope, digest) for scope in gate.scopes_at_stake()]
        return Response(shapes.GateSerializer(told, many=True).data)
