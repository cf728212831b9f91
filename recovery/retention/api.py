"""Retention over the API: what the pages show and do, with the same parameters and permissions."""

from dataclasses import asdict
from typing import Any, cast
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, serializers, status
from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from recovery import permissions
from recovery.models import Hold
from recovery.permissions import ReadOr
from recovery.retention import find, forms, holds
from recovery.retention.due import holds_over
from verdicts.fleet.api import understood
from verdicts.given import checked, refused, user_of
from verdicts.keeping import OF_ATTEMPTS
from verdicts.listing.api_paging import Pages
from verdicts.models import Attempt, Tombstone
from verdicts.permissions import ReadOnly
from verdicts.record import NotPermitted
from verdicts.serializers import TombstoneSerializer


def _of(form: type[forms.OfCluster]) -> list[OpenApiParameter]:
    """A list's parameters as its form says them."""
    named = [OpenApiParameter(name, str, enum=[word for word, _ in said]) for name, said in form.choices.items()]
    texts = [OpenApiParameter(name, str) for name in ("cluster", *form.texts)]
    return [*named, *texts, *(OpenApiParameter(name, OpenApiTypes.DATETIME) for name in form.times)]


class ExpiringSerializer(serializers.ModelSerializer[Attempt]):
    """An attempt of which a class is still there. `expires_at` is null where the class is kept for ever."""

    cluster = serializers.CharField(source="cluster.name")
    workload = serializers.CharField(source="workload.name", default="")
    since = serializers.DateTimeField(help_text="When its time began: it ended or became known, what is later.")
    expires_at = serializers.SerializerMethodField()
    held = serializers.BooleanField(help_text="A hold stands over it.")
    busy = serializers.BooleanField(help_text="It runs, is owed a verdict, or has something proposed that is open.")

    class Meta:
        model = Attempt
        fields = ["id", "cluster", "workload", "job_id", "restart_count", "since", "expires_at", "held", "busy"]

    def get_expires_at(self, attempt: Any) -> str | None:
        """When it is due by its time; a hold puts that off."""
        return attempt.expires.isoformat() if attempt.expires > attempt.since else None


class ExpiredSerializer(TombstoneSerializer):
    """What expired of which attempt."""

    attempt = serializers.UUIDField(source="attempt_id")


class HoldSerializer(serializers.ModelSerializer[Hold]):
    """A hold."""

    over = serializers.SerializerMethodField()
    workload = serializers.CharField(source="workload.name", default="")
    cluster = serializers.SerializerMethodField()
    owner = serializers.CharField(source="owner.username")
    placed_by = serializers.CharField(source="placed_by.username")
    released_by = serializers.CharField(source="released_by.username", default="")

    class Meta:
        model = Hold
        fields = [
            *("id", "over", "attempt", "workload", "cluster", "after", "before", "reason", "owner", "review_on"),
            *("placed_by", "placed_at", "released_by", "released_at", "released_why"),
        ]

    def get_over(self, hold: Hold) -> str:
        """What it is over, in words."""
        return holds.what(hold)

    def get_cluster(self, hold: Hold) -> str:
        """The cluster of what it is over."""
        of = hold.cluster or (
            hold.workload.cluster if hold.workload else hold.attempt.cluster if hold.attempt else None
        )
        return of.name if of else ""


class HoldPlaceSerializer(serializers.Serializer[Any]):
    """A hold to be placed: over an attempt, a workload, or a cluster within a time range."""

    attempt = serializers.CharField(required=False, default="")
    workload = serializers.CharField(required=False, default="", help_text="Its name or id.")
    cluster = serializers.CharField(required=False, default="")
    after = serializers.CharField(required=False, default="", help_text="RFC 3339; with a cluster.")
    before = serializers.CharField(required=False, default="", help_text="RFC 3339; with a cluster.")
    reason = serializers.CharField(max_length=holds.MAX_TEXT)
    owner = serializers.CharField(required=False, default="", help_text="An account; you if not said.")
    review_on = serializers.CharField(help_text="The day on which somebody looks whether it is still needed.")


class HoldReviewSerializer(serializers.Serializer[Any]):
    """That a hold is still needed."""

    reason = serializers.CharField(max_length=holds.MAX_TEXT)
    owner = serializers.CharField(required=False, default="")
    review_on = serializers.CharField()


class HoldReleaseSerializer(serializers.Serializer[Any]):
    """Why a hold is released."""

    reason = serializers.CharField(max_length=holds.MAX_TEXT)


class Retention(APIView):
    """For how long each class is kept, what it takes up, what is due in which week, which holds are overdue.

    Rows are the database's own estimates, sizes those of whole tables with their indexes, counts stop at 10,000.
    """

    permission_classes = [ReadOnly]

    @extend_schema(responses={(200, "application/json"): OpenApiTypes.OBJECT})
    def get(self, request: Request) -> Response:
        told = [
            asdict(one) | {"kept": one.kept.value, "title": one.title, "holds": one.holds, "days": one.days or None}
            for one in find.classes()
        ]
        standing = Hold.objects.filter(released_at=None).count()
        return Response({"classes": told, "holds": {"standing": standing, "overdue": find.overdue().count()}})


class _Listed(generics.ListAPIView[Any]):
    pagination_class = Pages
    permission_classes: Any = [ReadOnly]
    filter_backends: list[Any] = []
    form: type[Any]

    def get_queryset(self) -> QuerySet[Any]:
        form = self.form(self.request.query_params)
        understood(form)
        return cast("QuerySet[Any]", form.rows())


class Expiring(_Listed):
    """Attempts of which a class is still there, what is due first at the top."""

    serializer_class = ExpiringSerializer
    form = forms.ExpiryForm

    @extend_schema(parameters=_of(forms.ExpiryForm))
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class UntilSerializer(serializers.Serializer[Any]):
    """Until when a class of an attempt is kept. `at` is null for ever, `gone` says when it expired."""

    kept = serializers.ChoiceField(choices=[kept.value for kept in OF_ATTEMPTS])
    at = serializers.DateTimeField(allow_null=True)
    gone = serializers.DateTimeField(allow_null=True)


class OfAttemptSerializer(serializers.Serializer[Any]):
    """Until when what of an attempt is kept, and the holds that stand over it."""

    classes = UntilSerializer(many=True)
    holds = HoldSerializer(many=True)


class OfAttempt(APIView):
    """Until when what of an attempt is kept, and which holds stand over it."""

    permission_classes = [ReadOnly]

    @extend_schema(responses={200: OfAttemptSerializer})
    def get(self, request: Request, pk: UUID) -> Response:
        attempt = get_object_or_404(Attempt.objects.defer("body"), pk=pk)
        over = find.holds().filter(pk__in=holds_over(attempt).values("pk"))
        return Response(OfAttemptSerializer({"classes": find.until(attempt), "holds": over}).data)


class Expired(generics.ListAPIView[Tombstone]):
    """What expired, the latest first."""

    pagination_class = Pages
    permission_classes = [ReadOnly]
    filter_backends: list[Any] = []
    serializer_class = ExpiredSerializer
    queryset = find.tombstones()


class Holds(_Listed):
    """Holds: list them, or place one."""

    permission_classes = [ReadOr]
    write_permission = permissions.HOLD
    serializer_class = HoldSerializer
    form = forms.HoldsForm

    @extend_schema(parameters=_of(forms.HoldsForm))
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(request=HoldPlaceSerializer, responses={201: HoldSerializer})
    def post(self, request: Request) -> Response:
        said, by = checked(HoldPlaceSerializer(data=request.data)), user_of(request)
        try:
            made = holds.place(
                forms.scope_of(said),
                reason=said["reason"],
                owner=forms.owner_of(said["owner"]) if said["owner"] else by,
                review_on=forms.day_of(said["review_on"]),
                by=by,
            )
        except ValueError as error:
            raise refused(error) from error
        return Response(_detail(made.pk), status=status.HTTP_201_CREATED)


def _detail(hold_id: UUID) -> dict[str, Any]:
    hold = get_object_or_404(find.holds(), pk=hold_id)
    attempts, gone = find.reach(hold)
    return {**HoldSerializer(hold).data, "attempts": attempts, "attempts_expired_before": gone}


class HoldDetail(APIView):
    """One hold, with how many attempts it is over (counting stops at 10,000)."""

    permission_classes = [ReadOnly]

    @extend_schema(responses={200: HoldSerializer})
    def get(self, request: Request, pk: UUID) -> Response:
        return Response(_detail(pk))


class _Changes(APIView):
    permission_classes = [ReadOr]
    write_permission = permissions.HOLD

    def change(self, pk: UUID, said: dict[str, Any], by: User) -> None:
        """What is done to the hold."""
        raise NotImplementedError

    def changed(self, request: Request, pk: UUID, shape: type[serializers.Serializer[Any]]) -> Response:
        """The hold afterwards, or what stood in the way."""
        said = checked(shape(data=request.data))
        try:
            self.change(pk, said, user_of(request))
        except Hold.DoesNotExist as error:
            raise NotFound from error
        except NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        except ValueError as error:
            raise refused(error) from error
        return Response(_detail(pk))


class HoldReview(_Changes):
    """Say that a hold is still needed, and when to look again."""

    @extend_schema(request=HoldReviewSerializer, responses={200: HoldSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        return self.changed(request, pk, HoldReviewSerializer)

    def change(self, pk: UUID, said: dict[str, Any], by: User) -> None:
        """Note it."""
        owner = forms.owner_of(said["owner"]) if said["owner"] else None
        holds.review(pk, review_on=forms.day_of(said["review_on"]), by=by, reason=said["reason"], owner=owner)


class HoldRelease(_Changes):
    """Release a hold, with a reason."""

    @extend_schema(request=HoldReleaseSerializer, responses={200: HoldSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        return self.changed(request, pk, HoldReleaseSerializer)

    def change(self, pk: UUID, said: dict[str, Any], by: User) -> None:
        """Release it."""
        holds.release(pk, by=by, reason=said["reason"])
