"""The list over the API: read, exported, and done to many rows at once; and saved views."""

from typing import Any
from uuid import UUID

from django.http import HttpResponseBase, QueryDict
from django.urls import get_resolver, reverse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound, PermissionDenied, ValidationError
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from rules.attempt import InputError
from rules.words import Domain
from verdicts import serializers as shapes
from verdicts.given import refused, user_of
from verdicts.listing import bulk
from verdicts.listing.api_paging import limit_of
from verdicts.listing.export import FORMS, exported
from verdicts.listing.filters import NOT_ANALYSED, VerdictFilter
from verdicts.listing.keep_views import delete_view, save_view, set_shortcuts, shortcuts_of, views_of
from verdicts.listing.read import answer, asked, problems
from verdicts.models import ListRow, SavedView, Verdict
from verdicts.overview.find import overview
from verdicts.overview.pages import as_data
from verdicts.permissions import ReadOnly, may_read
from verdicts.record import NotPermitted

_ROOT = "api/v1/"
#: Filters as the API's description shows them, made of what the filters themselves say.
_FILTERS = [
    OpenApiParameter(
        name,
        str,
        description=str(found.extra.get("help_text", "")),
        enum=[str(value) for value, _ in found.extra["choices"]] if found.extra.get("choices") else None,
        many=name != "order" and "may be repeated" in str(found.extra.get("help_text", "")),
    )
    for name, found in VerdictFilter.base_filters.items()
]
_PAGES = [
    OpenApiParameter("cursor", str, description="Where the page begins: taken from `next` or `previous`."),
    OpenApiParameter("limit", int, description="Rows of a page: 50 if not said, at most 500."),
]


#: What a row says: a verdict's own columns that have a time or a number for nobody, and its attempt's, are not read.
_SHOWN = (
    *("attempt_id", "number", "is_current", "mode", "state", "domain", "strength", "headline", "coverage", "ended_at"),
    *("created_at", "superseded_at", "body_sha256", "attempt__job_id", "attempt__restart_count", "attempt__origin"),
    *("attempt__cluster__name", "attempt__workload__name", "ruleset__digest"),
)


class VerdictPageSerializer(serializers.Serializer[Any]):
    """One page of verdicts."""

    count = serializers.IntegerField(
        help_text="How many match; counting stops at 10,000, or at 300 where each row has to be read."
    )
    more = serializers.BooleanField(help_text="Whether more match than were counted.")
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = shapes.VerdictRowSerializer(many=True)


def _filters(query: QueryDict, rows: Any) -> VerdictFilter:
    """The filters of a request. Raises ValidationError that names each parameter that cannot be understood."""
    filters = asked(query, rows)
    wrong = {name: [said] for name, said in problems(filters).items()}
    if NOT_ANALYSED in query.getlist("domain") and rows is not None:
        wrong["domain"] = ["Attempts without a verdict are at /attempts?judged=false."]
    if wrong:
        raise ValidationError(wrong)
    return filters


class Verdicts(APIView):
    """Verdicts that stand, or with `superseded=true` all."""

    permission_classes = [ReadOnly]

    @extend_schema(
        operation_id="verdicts_list", parameters=[*_FILTERS, *_PAGES], responses={200: VerdictPageSerializer}
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        limit = limit_of(query)
        filters = _filters(query, ListRow.objects.exclude(domain=NOT_ANALYSED))
        found = answer(filters, size=limit)
        ids = [row.pk for row in found.page.rows]  # a verdict's row has its id
        verdicts = Verdict.objects.for_list().only(*_SHOWN).in_bulk(ids)
        rows = [verdicts[pk] for pk in ids if pk in verdicts]

        def page(cursor: Any) -> str | None:
            if cursor is None:
                return None
            data = query.copy()
            data["cursor"] = str(cursor)
            return request.build_absolute_uri(f"{request.path}?{data.urlencode()}")

        return Response(
            {
                "count": found.count,
                "more": found.more,
                "next": page(found.page.next),
                "previous": page(found.page.previous),
                "results": shapes.VerdictRowSerializer(rows, many=True).data,
            }
        )


class Export(APIView):
    """All rows of a list as a file: what the page shows for the same filters, attempts without a verdict too."""

    permission_classes = [ReadOnly]

    @extend_schema(operation_id="verdicts_export", parameters=_FILTERS, responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request, form: str) -> HttpResponseBase:
        if form not in FORMS:
            raise NotFound
        return exported(_filters(request.query_params, None), form)


class _Acts(BasePermission):
    """Readers get in; what they may do is asked of each action."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return bool(request.user and request.user.is_authenticated and may_read(request.user))


class BulkOrderSerializer(serializers.Serializer[Any]):
    """What to do, and to which verdicts or attempts without a verdict."""

    rows = serializers.ListField(child=serializers.UUIDField(), min_length=1, max_length=bulk.MOST_ROWS)
    action = serializers.ChoiceField(choices=[action.value for action in bulk.Action])
    note = serializers.CharField(required=False, allow_blank=True, max_length=10_000, default="")
    actual_domain = serializers.ChoiceField(choices=[domain.value for domain in Domain], required=False)
    actual_nodes = serializers.ListField(
        child=serializers.CharField(max_length=255), required=False, max_length=1000, default=list
    )


class OutcomeSerializer(serializers.Serializer[Any]):
    """What became of one row."""

    row = serializers.UUIDField()
    name = serializers.CharField()
    done = serializers.BooleanField()
    said = serializers.CharField()


class BulkAnswerSerializer(serializers.Serializer[Any]):
    """What became of each row."""

    done = serializers.IntegerField()
    refused = serializers.IntegerField()
    outcomes = OutcomeSerializer(many=True)


class Bulk(APIView):
    """Review or re-attribute many rows at once: those that cannot be done say why and stop no other."""

    permission_classes = [_Acts]

    @extend_schema(request=BulkOrderSerializer, responses={200: BulkAnswerSerializer})
    def post(self, request: Request) -> Response:
        order = BulkOrderSerializer(data=request.data)
        order.is_valid(raise_exception=True)
        said = order.validated_data
        domain = said.get("actual_domain")
        try:
            outcomes = bulk.apply(
                said["rows"],
                bulk.Action(said["action"]),
                by=user_of(request),
                note=said["note"],
                actual_domain=Domain(domain) if domain else None,
                actual_nodes=said["actual_nodes"],
            )
        except NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        except InputError as error:
            raise refused(error) from error
        done = sum(outcome.done for outcome in outcomes)
        told = OutcomeSerializer(outcomes, many=True).data
        return Response({"done": done, "refused": len(outcomes) - done, "outcomes": told})


class ViewSerializer(serializers.ModelSerializer[SavedView]):
    """A list's filters and order under a name."""

    owner = serializers.CharField(source="owner.username", read_only=True)
    page = serializers.SerializerMethodField()

    class Meta:
        model = SavedView
        fields = ["id", "name", "query", "shared", "owner", "created_at", "page"]
        read_only_fields = ["id", "created_at"]

    def get_page(self, view: SavedView) -> str:
        """The path of the list that it shows."""
        return f"{reverse('verdicts:list')}?{view.query}"


class ViewOrderSerializer(serializers.Serializer[Any]):
    """A view to be saved: the same name again replaces what it stood for."""

    name = serializers.CharField()
    query = serializers.CharField(allow_blank=True, help_text="As in the page's address: domain=storage&order=-ended.")
    shared = serializers.BooleanField(default=False)


class Views(APIView):
    """The saved views that one may open, or one to be saved."""

    permission_classes = [_Acts]

    @extend_schema(responses={200: ViewSerializer(many=True)})
    def get(self, request: Request) -> Response:
        return Response(ViewSerializer(views_of(user_of(request)), many=True).data)

    @extend_schema(request=ViewOrderSerializer, responses={201: ViewSerializer})
    def post(self, request: Request) -> Response:
        order = ViewOrderSerializer(data=request.data)
        order.is_valid(raise_exception=True)
        said = order.validated_data
        try:
            view = save_view(said["name"], said["query"], by=user_of(request), shared=said["shared"])
        except NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        except InputError as error:
            raise refused(error) from error
        return Response(ViewSerializer(view).data, status=status.HTTP_201_CREATED)


class View(APIView):
    """One saved view of one's own."""

    permission_classes = [_Acts]

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: UUID) -> Response:
        try:
            delete_view(pk, by=user_of(request))
        except SavedView.DoesNotExist:
            raise NotFound from None
        return Response(status=status.HTTP_204_NO_CONTENT)


class PreferencesSerializer(serializers.Serializer[Any]):
    """What a person set for their own console."""

    shortcuts = serializers.BooleanField(help_text="Whether single keys move in the lists.")


class Preferences(APIView):
    """One's own settings of the console."""

    permission_classes = [_Acts]

    @extend_schema(responses={200: PreferencesSerializer})
    def get(self, request: Request) -> Response:
        return Response({"shortcuts": shortcuts_of(user_of(request))})

    @extend_schema(request=PreferencesSerializer, responses={200: PreferencesSerializer})
    def put(self, request: Request) -> Response:
        order = PreferencesSerializer(data=request.data)
        order.is_valid(raise_exception=True)
        set_shortcuts(order.validated_data["shortcuts"], by=user_of(request))
        return self.get(request)


class OverviewNumbers(APIView):
    """What the landing page shows: each number with the query of the list that it counts."""

    permission_classes = [ReadOnly]

    @extend_schema(responses={(200, "application/json"): OpenApiTypes.OBJECT})
    def get(self, request: Request) -> Response:
        return Response(as_data(overview(timezone.now())))


class Root(APIView):
    """Where to begin: the addresses of the API that need no id."""

    permission_classes = [IsAuthenticated]

    @extend_schema(responses={(200, "application/json"): OpenApiTypes.OBJECT})
    def get(self, request: Request) -> Response:
        known = get_resolver().reverse_dict
        found = {}
        for name in (name for name in known if isinstance(name, str)):
            ((pattern, parameters), *_), *_ = known.getlist(name)[0]
            path = pattern.removeprefix(_ROOT)
            if pattern.startswith(_ROOT) and path and not parameters:
                found[path] = request.build_absolute_uri(f"/{pattern}")
        return Response(dict(sorted(found.items())))
