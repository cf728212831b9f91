"""What the views of the REST API share; `attempts_api`, `verdicts_api` and `inventory_api` have them.

Views are thin: they parse, call `find.py`, `record.py` or `conclude.py`, and answer.
"""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.defaults import page_not_found
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import generics, status
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request
from rest_framework.views import APIView

from verdicts.listing.api_paging import Pages
from verdicts.listing.parameters import unknown_parameters
from verdicts.models import Attempt
from verdicts.permissions import ReadOnly

PAGING = ("limit", "offset", "format")


class Conflict(APIException):
    """The request contradicts an earlier one."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "conflict"


class KnownFilters(DjangoFilterBackend):
    """Refuses parameters that no filter knows: a misspelt filter must not answer with everything."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: APIView) -> QuerySet[Any]:
        if unknown := unknown_parameters(request.query_params, self.get_filterset_class(view, queryset), PAGING):
            raise ValidationError({name: ["No such filter."] for name in unknown})
        return super().filter_queryset(request, queryset, view)


class List(generics.ListAPIView[Any]):
    """A list that is cut into pages."""

    pagination_class = Pages
    permission_classes = [ReadOnly]
    filter_backends: list[Any] = []


def attempt_of(pk: UUID) -> Attempt:
    """The attempt of an address, with its cluster; 404 where there is none."""
    return get_object_or_404(Attempt.objects.select_related("cluster"), pk=pk)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An address that is not there: for the API in the form of its other errors, else a page."""
    if not request.path.startswith("/api/"):
        return page_not_found(request, exception)
    error = {"code": "not_found", "detail": "There is no such address.", "attr": None}
    return JsonResponse({"type": "client_error", "errors": [error]}, status=404)
