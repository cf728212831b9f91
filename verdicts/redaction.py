"""The redactor of this site: nothing is stored or logged that it has not seen."""

from typing import Any

from django.conf import settings

from rules.observation import MAX_LINE
from rules.redact import Redactor


def current_redactor() -> Redactor:
    """What takes secrets out here, with the site's own patterns and the key of its tags."""
    redactor: Redactor = settings.INQUEST_REDACTOR
    return redactor


def clean_text(text: str) -> str:
    """A text for storing: a reason, an error, a note."""
    return current_redactor().redact(text)


def clean_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Named values for storing: a name can say that its value is a secret."""
    redactor = current_redactor()
    return {
        name: redactor.redact_field(name, value)[:MAX_LINE] if isinstance(value, str) else value
        for name, value in fields.items()
    }
