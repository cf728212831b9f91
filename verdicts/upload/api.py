"""Sending a whole incident over the API: what the upload page does."""

from typing import Any

from django.http import HttpRequest
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.views import APIView

from rules.attempt import MAX_NAME, InputError
from verdicts import given
from verdicts.given import user_of
from verdicts.permissions import ReadOrIngest
from verdicts.upload.store import Bounded, NoRoom, TooLarge, room, store_upload
from verdicts.upload.unpack import ENDINGS


class NoRoomNow(APIException):
    """The machine cannot take an upload now."""

    status_code = status.HTTP_507_INSUFFICIENT_STORAGE
    default_code = "no_room"


class IncidentSerializer(serializers.Serializer):
    """An incident as it is sent."""

    files = serializers.ListField(
        child=serializers.FileField(),
        allow_empty=False,
        help_text=f"One archive of an incident folder ({', '.join(ENDINGS)}), or its files.",
    )
    cluster = serializers.CharField(
        max_length=MAX_NAME, required=False, default="", help_text="Where attempt.json does not say it."
    )
    job = serializers.CharField(
        max_length=MAX_NAME, required=False, default="", help_text="The job's id, for files without attempt.json."
    )


class StoredSerializer(serializers.Serializer):
    """What became of it: where its verdict will be, and what was guessed."""

    attempt = serializers.UUIDField()
    job_id = serializers.CharField()
    attribution = serializers.UUIDField()
    stored = serializers.IntegerField()
    repeated = serializers.IntegerField()
    cut = serializers.IntegerField()
    notes = serializers.ListField(child=serializers.CharField())
    verdict_url = serializers.CharField()
    attribution_url = serializers.CharField()


class Incidents(APIView):
    """Send an incident: an archive of its folder, or its files."""

    permission_classes = [ReadOrIngest]
    parser_classes = [MultiPartParser]

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        request.upload_handlers = [Bounded(request)]
        return super().initialize_request(request, *args, **kwargs)

    @extend_schema(
        request={"multipart/form-data": IncidentSerializer},
        responses={202: StoredSerializer},
        description="The evidence is stored and its verdict asked for; `attribution_url` says how far that is. "
        "The same incident sent again changes nothing. An archive with anything but plain files below its own "
        "folder, or more than the site's limits, is refused with the reason.",
    )
    def post(self, request: Request) -> Response:
        try:
            with room():
                sent = IncidentSerializer(data=request.data)
                sent.is_valid(raise_exception=True)
                said = sent.validated_data
                stored = store_upload(said["files"], by=user_of(request), cluster=said["cluster"], job=said["job"])
        except TooLarge as error:
            raise given.TooLarge(str(error)) from error
        except NoRoom as error:
            raise NoRoomNow(str(error)) from error
        except InputError as error:
            raise ValidationError({"files": [str(error)]}) from error
        told = {
            "attempt": stored.attempt,
            "job_id": stored.job_id,
            "attribution": stored.request,
            "stored": stored.stored,
            "repeated": stored.repeated,
            "cut": stored.cut,
            "notes": stored.notes,
            "verdict_url": reverse("api-standing-verdict", args=[stored.attempt], request=request),
            "attribution_url": reverse("api-attribution", args=[stored.request], request=request),
        }
        return Response(StoredSerializer(told).data, status=status.HTTP_202_ACCEPTED)
