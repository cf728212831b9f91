"""How the API's lists are cut."""

from rest_framework.pagination import LimitOffsetPagination


class Pages(LimitOffsetPagination):
    """`limit` and `offset`; a limit nobody can raise above what one answer should hold."""

    default_limit = 50
    max_limit = 500
