"""The API of the ledger."""

from typing import Any

from django.http import QueryDict
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import generics, serializers
from rest_framework.exceptions import ValidationError
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from recovery import permissions
from recovery.ledger import entries, find, pages
from recovery.ledger.form import LedgerForm
from recovery.models import LedgerCheckpoint, LedgerEntry
from recovery.words import EntryKind
from verdicts.given import user_of
from verdicts.listing.api_paging import Pages, limit_of
from verdicts.listing.keyset import CursorError
from verdicts.permissions import ReadOnly

_FILTERS = [
    OpenApiParameter("kind", str, enum=[word.value for word in EntryKind], many=True, description="May be repeated."),
    OpenApiParameter("actor", str, many=True, description='"user:NAME", "user:" or a bare name; may be repeated.'),
    OpenApiParameter("subject", str, description='"proposal:ID", "proposal" or an id.'),
    OpenApiParameter("attempt", OpenApiTypes.UUID),
    OpenApiParameter("since_number", int, description="After this entry: where a tool that reads on had got to."),
    OpenApiParameter("after", OpenApiTypes.DATETIME, description="Became true at or after."),
    OpenApiParameter("before", OpenApiTypes.DATETIME, description="Became true before."),
]
_PAGES = [
    OpenApiParameter("order", str, enum=["-number", "number"], description="Newest first, or oldest first."),
    OpenApiParameter("cursor", str, description="Where the page begins: taken from `next` or `previous`."),
    OpenApiParameter("limit", int, description="Entries of a page: 50 if not said, at most 500."),
]


class SubjectSerializer(serializers.Serializer[Any]):
    """What an entry is about."""

    kind = serializers.CharField()
    id = serializers.CharField()


class EntrySerializer(serializers.Serializer[Any]):
    """An entry of the ledger with its place in the chain. A text that was erased is null."""

    number = serializers.IntegerField(source="link.number")
    id = serializers.UUIDField()
    kind = serializers.CharField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    roles = serializers.ListField(source="body.roles", child=serializers.CharField())
    subject = SubjectSerializer(source="body.subject")
    attempt = serializers.UUIDField(allow_null=True)
    facts = serializers.DictField(source="body.facts")
    contents = serializers.SerializerMethodField()
    body_sha256 = serializers.CharField()
    previous = serializers.CharField(source="link.previous")
    hash = serializers.CharField(source="link.hash")

    def get_contents(self, entry: LedgerEntry) -> dict[str, str | None]:
        """What people said in their own words."""
        texts = self.context["contents"].get(entry.pk, [])
        return {text.field: None if text.erased_at else text.text for text in texts}


class EntryPageSerializer(serializers.Serializer[Any]):
    """One page of entries."""

    count = serializers.IntegerField(help_text="How many match; counting stops at 10,000.")
    more = serializers.BooleanField(help_text="Whether more match than were counted.")
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = EntrySerializer(many=True)


class CheckpointSerializer(serializers.ModelSerializer[LedgerCheckpoint]):
    """A signed statement of how far the ledger went."""

    class Meta:
        model = LedgerCheckpoint
        fields = ["number", "hash", "made_at", "public_key", "signature"]


class ProofSerializer(serializers.Serializer[Any]):
    """Whether an entry is what was written, as far as the database itself can tell."""

    wrong = serializers.ListField(child=serializers.CharField(), help_text="What is not as it should be.")
    checkpoint = CheckpointSerializer(allow_null=True)
    walked = serializers.IntegerField(allow_null=True, help_text="Places verified between it and the checkpoint.")


class ProvedEntrySerializer(EntrySerializer):
    """An entry with its proof."""

    proof = serializers.SerializerMethodField()

    @extend_schema_field(ProofSerializer)
    def get_proof(self, entry: LedgerEntry) -> Any:
        """Its proof."""
        return ProofSerializer(find.proof_of(entry)).data


def _form(query: QueryDict) -> LedgerForm:
    form = LedgerForm(query)
    if form.errors:
        raise ValidationError({name: [said] for name, said in form.errors.items()})
    return form


class MayExport(BasePermission):
    """Who may take the ledger away."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Whether the call may go on."""
        return bool(request.user and request.user.is_authenticated) and request.user.has_perm(permissions.EXPORT_LEDGER)


class Entries(APIView):
    """The entries of the ledger."""

    permission_classes = [ReadOnly]

    @extend_schema(operation_id="ledger_list", parameters=[*_FILTERS, *_PAGES], responses={200: EntryPageSerializer})
    def get(self, request: Request) -> Response:
        form = _form(request.query_params)
        size = limit_of(request.query_params)
        try:
            found = find.page(form.rows(), size=size, cursor=form.cursor, descending=form.order.startswith("-"))
        except CursorError as error:
            raise ValidationError({"cursor": [str(error)]}) from error

        def page(cursor: str) -> str | None:
            if not cursor:
                return None
            data = request.query_params.copy()
            data["cursor"] = cursor
            return request.build_absolute_uri(f"{request.path}?{data.urlencode()}")

        context = {"contents": find.contents_of(found.rows)}
        return Response(
            {
                "count": found.count,
                "more": found.more,
                "next": page(found.next),
                "previous": page(found.previous),
                "results": EntrySerializer(found.rows, many=True, context=context).data,
            }
        )


class EntryDetail(APIView):
    """One entry, with its proof."""

    permission_classes = [ReadOnly]

    @extend_schema(operation_id="ledger_retrieve", responses={200: ProvedEntrySerializer})
    def get(self, request: Request, number: int) -> Response:
        entry = get_object_or_404(LedgerEntry.objects.select_related("link"), link__number=number)
        context = {"contents": find.contents_of([entry])}
        return Response(ProvedEntrySerializer(entry, context=context).data)


class Checkpoints(generics.ListAPIView[LedgerCheckpoint]):
    """The checkpoints, the newest first."""

    permission_classes = [ReadOnly]
    serializer_class = CheckpointSerializer
    pagination_class = Pages
    queryset = LedgerCheckpoint.objects.order_by("-number", "-made_at")
    filter_backends: list[Any] = []


class Export(APIView):
    """The ledger as an export: lines that `inquest ledger verify` reads. Making one is an entry, so it is a POST."""

    permission_classes = [MayExport]

    @extend_schema(
        request=None,
        parameters=_FILTERS,
        responses={(200, "application/x-ndjson"): OpenApiResponse(OpenApiTypes.BINARY)},
    )
    def post(self, request: Request) -> Any:
        form = _form(request.query_params)
        return pages.exported(form, entries.Actor.user(user_of(request)))
