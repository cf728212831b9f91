"""The box that tries a pasted log, as a page and in the API."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response
from rest_framework.views import APIView

from rules.attempt import MAX_NAME, InputError
from rules.words import Source
from verdicts import conclude, permissions
from verdicts.given import refused
from verdicts.guard import Request, permitted
from verdicts.permissions import MayRead
from verdicts.rulebook.try_apart import try_apart
from verdicts.rulebook.try_it import MOST_CHARACTERS, Tried
from verdicts.wording import SOURCES

_SOURCES = [(source.value, SOURCES[source.value]) for source in Source]


@require_http_methods(["GET", "HEAD", "POST"])
@permitted(permissions.may_read)
def page(request: Request) -> HttpResponse:
    """Show the box, and what became of what was pasted into it."""
    context: dict[str, Any] = {
        "section": "rules",
        "tab": "try",
        "sources": _SOURCES,
        "most": MOST_CHARACTERS,
        "text": "",
        "ruleset": conclude.current_ruleset(),
    }
    if request.method == "POST":
        # A text area sends its lines as browsers do, whatever they were.
        text = request.POST.get("text", "").replace("\r\n", "\n")
        source, node = request.POST.get("source", ""), request.POST.get("node", "").strip()[:MAX_NAME]
        context |= {"text": text if len(text) <= MOST_CHARACTERS else "", "source": source, "node": node}
        try:
            context["tried"] = try_apart(text, context["ruleset"], source=_source(source), node=node)
        except InputError as error:
            context["problem"] = str(error)
    return render(request, "rules/try.html", context, status=400 if "problem" in context else 200)


def _source(word: str) -> Source | None:
    if word and word not in set(Source):
        raise InputError(f"source: {word!r} is none of {', '.join(Source)}")
    return Source(word) if word else None


class TrySerializer(serializers.Serializer):
    """A text to be tried."""

    text = serializers.CharField(max_length=MOST_CHARACTERS, trim_whitespace=False)
    source = serializers.ChoiceField(  # type: ignore[assignment]
        choices=[source.value for source in Source], required=False
    )
    node = serializers.CharField(max_length=MAX_NAME, required=False, default="")


class Try(APIView):
    """Which rules match a text, and what the verdict would be. Nothing is stored."""

    permission_classes = [MayRead]

    @extend_schema(request=TrySerializer, responses={(200, "application/json"): OpenApiTypes.OBJECT})
    def post(self, request: ApiRequest) -> Response:
        order = TrySerializer(data=request.data)
        order.is_valid(raise_exception=True)
        said = order.validated_data
        try:
            tried = try_apart(
                said["text"], conclude.current_ruleset(), source=_source(said.get("source", "")), node=said["node"]
            )
        except InputError as error:
            raise refused(error) from error
        return Response(_as_json(tried))


def _as_json(tried: Tried) -> dict[str, Any]:
    matches = [
        {
            "ref": match.ref,
            "text": match.text,
            "rule": match.rule.id,
            "symptom": match.rule.symptom,
            "role": match.rule.role.value,
            "locus": match.locus,
            "fields": match.fields,
        }
        for match in tried.matches
    ]
    return {
        "source": tried.source.value,
        "why": tried.why,
        "read": tried.read,
        "kept": tried.kept,
        "reason": tried.reason,
        "matches": matches,
        "more": tried.more,
        "verdict": tried.verdict,
    }
