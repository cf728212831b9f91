"""A filter by a time, in whatever offset it is given."""

from datetime import UTC, datetime
from typing import Any

import django_filters as filters
from django import forms
from django_filters.fields import IsoDateTimeField


class _MomentField(IsoDateTimeField):
    """A time in UTC: PostgreSQL knows no offset of sixteen hours or more, and Python does."""

    def clean(self, value: Any) -> datetime | None:
        at: datetime | None = super().clean(value)
        try:
            return at.astimezone(UTC) if at is not None else None
        except OverflowError:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from None


class MomentFilter(filters.IsoDateTimeFilter):
    """`IsoDateTimeFilter` for times of any offset."""

    field_class = _MomentField
