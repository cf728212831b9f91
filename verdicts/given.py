"""What the API is given: bounded bodies, decoded strictly, with errors that name the index and the field."""

import re
from collections.abc import Mapping
from typing import IO, Any, TypeVar, cast

import msgspec
from django.contrib.auth.models import User
from rest_framework.exceptions import (
    APIException,
    ParseError,
    UnsupportedMediaType,
    ValidationError,
)
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from verdicts import limits

T = TypeVar("T")
_PATH = re.compile(r"(?s)(.*) - at `\$(.*)`")
#: A field of a body, and not the beginning of a sentence with a colon in it.
_FIELD = re.compile(r"[A-Za-z_][\w.\[\]-]*")
#: Errors beyond this many are not listed: a batch of the wrong shape has one in every record.
MAX_ERRORS = 20


class TooLarge(APIException):
    """The body is larger than the endpoint takes."""

    status_code = 413
    default_code = "too_large"


class _Bounded(BaseParser):
    """Reads at most the limit, whatever the headers say."""

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        headers = parser_context["request"].headers if parser_context else {}
        encoding = headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise UnsupportedMediaType(
                encoding,
                detail=f"Content-Encoding {encoding} is not taken: send it uncompressed.",
            )
        raw = stream.read(limits.MAX_BATCH_BYTES + 1)
        if len(raw) > limits.MAX_BATCH_BYTES:
            raise TooLarge(f"The body is larger than {limits.MAX_BATCH_BYTES} bytes: send it in several batches.")
        return self.decode(raw)

    def decode(self, raw: bytes) -> Any:
        """The body as plain data."""
        raise NotImplementedError


class BoundedJSON(_Bounded):
    """One JSON value."""

    media_type = "application/json"

    def decode(self, raw: bytes) -> Any:
        return _json(raw, "")


class JSONLines(_Bounded):
    """One JSON value a line; blank lines are passed over."""

    media_type = "application/x-ndjson"

    def decode(self, raw: bytes) -> Any:
        lines = [(number, line) for number, line in enumerate(raw.split(b"\n"), start=1) if line.strip()]
        if len(lines) > limits.MAX_BATCH:
            raise TooLarge(_too_many(len(lines)))
        return {"observations": [_json(line, f"line {number}: ") for number, line in lines]}


def _json(raw: bytes, where: str) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"{where}not valid JSON: {error}") from error


def converted(data: Any, wanted: type[T], *, at: str = "") -> T:
    """The data as the type wanted, or an error that names the field."""
    try:
        return msgspec.convert(data, wanted)
    except msgspec.ValidationError as error:
        field, message = _place(error, at)
        raise ValidationError({field: [message]}) from error


def converted_list(data: Any, name: str, wanted: type[T]) -> list[T]:
    """The list `name` of the data as a list of the type wanted, or the errors of up to 20 of its items."""
    if not isinstance(data, dict) or not isinstance(data.get(name), list):
        raise ValidationError({name: ["Expected a list of objects."]})
    items = data[name]
    if len(items) > limits.MAX_BATCH:
        raise TooLarge(_too_many(len(items)))
    done: list[T] = []
    errors: dict[str, list[str]] = {}
    for index, item in enumerate(items):
        try:
            done.append(msgspec.convert(item, wanted))
        except msgspec.ValidationError as error:
            field, message = _place(error, f"{name}[{index}]")
            errors[field] = [message]
            if len(errors) >= MAX_ERRORS:
                break
    if errors:
        raise ValidationError(errors)
    return done


def only(data: Any, *fields: str) -> dict[str, Any]:
    """The data as an object with no other fields than these."""
    if not isinstance(data, dict):
        raise ValidationError({"non_field_errors": ["Expected an object."]})
    if unknown := sorted(set(data) - set(fields)):
        raise ValidationError({str(name): ["Not a field of this request."] for name in unknown})
    return data


def refused(error: Exception) -> ValidationError:
    """A writer's error as an answer: with the field where it is "field: message"."""
    field, _, message = str(error).partition(": ")
    if message and _FIELD.fullmatch(field):
        return ValidationError({field: [message]})
    return ValidationError({"non_field_errors": [str(error)]})


def checked(serializer: Any) -> dict[str, Any]:
    """What a serializer of a request's body makes of it. Raises ValidationError."""
    serializer.is_valid(raise_exception=True)
    return cast("dict[str, Any]", serializer.validated_data)


def user_of(request: Request) -> User:
    """Who asks: the views' permissions let nobody in who is not logged in."""
    return cast("User", request.user)


def _place(error: msgspec.ValidationError, at: str) -> tuple[str, str]:
    match = _PATH.fullmatch(str(error))
    message, path = (match[1], match[2]) if match else (str(error), "")
    return (at + path if at else path.lstrip(".")) or "non_field_errors", message


def _too_many(number: int) -> str:
    return f"{number} records in one request: at most {limits.MAX_BATCH} are taken, send several batches."
