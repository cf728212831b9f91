"""Records over the API."""

from typing import Any, cast
from uuid import UUID

from django.contrib.auth.models import User
from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.views import APIView

from recovery.ledger import Actor
from recovery.ledger_api import MayExport
from recovery.record import export, pages
from verdicts.models import Attempt

_ZIP = {(200, "application/zip"): OpenApiResponse(OpenApiTypes.BINARY)}


class NotMadeNow(APIException):
    """The record cannot be made now."""

    status_code = 503
    default_code = "not_made"


class AttemptRecord(APIView):
    """The record of an attempt: one signed file. Making it is an entry of the ledger, by GET as by POST."""

    permission_classes = [MayExport]

    @extend_schema(operation_id="attempt_record_retrieve", responses=_ZIP)
    def get(self, request: Request, pk: UUID) -> Any:
        return self._made(request, pk)

    @extend_schema(operation_id="attempt_record_create", request=None, responses=_ZIP)
    def post(self, request: Request, pk: UUID) -> Any:
        return self._made(request, pk)

    def _made(self, request: Request, pk: UUID) -> Any:
        try:
            return pages.sent(pk, Actor.user(cast("User", request.user)), via="api")
        except Attempt.DoesNotExist:
            raise Http404 from None
        except export.NotMade as error:
            raise NotMadeNow(str(error)) from error
