"""How the API's lists are cut."""

from django.http import QueryDict
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.request import Request

USUAL, MOST = 50, 500


def whole(query: QueryDict, name: str, *, least: int, usual: int) -> int:
    """A whole number of the address. Raises ValidationError that names it: a guess would cut the list unseen."""
    text = query.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        raise ValidationError({name: [f"A whole number from {least}."]})
    return int(text)


def limit_of(query: QueryDict) -> int:
    """How many rows an answer has; a larger limit is taken for the largest."""
    return min(whole(query, "limit", least=1, usual=USUAL), MOST)


class Pages(LimitOffsetPagination):
    """`limit` and `offset`; a limit nobody can raise above what one answer should hold."""

    default_limit = USUAL
    max_limit = MOST

    def get_limit(self, request: Request) -> int:
        """The limit, or what is wrong with it."""
        return limit_of(request.query_params)

    def get_offset(self, request: Request) -> int:
        """The offset, or what is wrong with it."""
        return whole(request.query_params, "offset", least=0, usual=0)
