"""Records over the API."""

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from recovery.ledger.api import MayExport
from recovery.ledger.entries import Actor
from recovery.ledger.keys import KeyFileError
from recovery.record import export, load, pages
from recovery.record.container import BadRecord
from rules.attempt import InputError
from verdicts import given
from verdicts.given import user_of
from verdicts.models import Attempt
from verdicts.permissions import ReadOrIngest
from verdicts.upload.api import NoRoomNow
from verdicts.upload.store import Bounded, NoRoom, TooLarge, room

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
            return pages.sent(pk, Actor.user(user_of(request)), via="api")
        except Attempt.DoesNotExist:
            raise Http404 from None
        except export.NotMade as error:
            raise NotMadeNow(str(error)) from error


class SentSerializer(serializers.Serializer[Any]):
    """A record as it is sent."""

    file = serializers.FileField(help_text="What `inquest export` or another site's button made.")


class LoadedSerializer(serializers.Serializer[Any]):
    """What became of it."""

    attempt = serializers.UUIDField()
    new = serializers.BooleanField(help_text="False where a record of the attempt had been imported.")
    extended = serializers.BooleanField(help_text="Whether it is a newer one, which went on where that one ended.")
    observations = serializers.IntegerField(help_text="How many were stored now.")
    verdicts = serializers.IntegerField(help_text="How many were stored now.")


class Records(APIView):
    """Load a record of another site: its attempt, marked as imported."""

    permission_classes = [ReadOrIngest]
    parser_classes = [MultiPartParser]

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        request.upload_handlers = [Bounded(request)]
        return super().initialize_request(request, *args, **kwargs)

    @extend_schema(
        operation_id="records_create",
        request={"multipart/form-data": SentSerializer},
        responses={200: LoadedSerializer, 201: LoadedSerializer},
        description="Refused with the reason where it does not verify, is signed by nobody whom this site knows "
        "(INQUEST_RECORD_KEYS_FILE), or contradicts the record of the attempt that is here.",
    )
    def post(self, request: Request) -> Response:
        user = user_of(request)
        try:
            with room():
                sent = SentSerializer(data=request.data)
                sent.is_valid(raise_exception=True)
                file = sent.validated_data["file"]
                loaded = load.load(file.file, load.known_keys(), actor=Actor.user(user), by=user)
        except TooLarge as error:
            raise given.TooLarge(str(error)) from error
        except NoRoom as error:
            raise NoRoomNow(str(error)) from error
        except (BadRecord, InputError) as error:
            raise ValidationError({"file": [str(error)]}) from error
        except KeyFileError as error:
            raise NotMadeNow(str(error)) from error
        code = status.HTTP_201_CREATED if loaded.new else status.HTTP_200_OK
        return Response(LoadedSerializer(loaded).data, status=code)
