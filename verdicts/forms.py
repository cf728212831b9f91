"""What people type into the verdict pages."""

from typing import Any

from django import forms

from rules.words import Domain
from verdicts import wording
from verdicts.choices import Label
from verdicts.people.talk import MOST_CHARACTERS

_LABELS = [
    (Label.RIGHT.value, "Right"),
    (Label.WRONG.value, "Wrong"),
    (Label.UNDECIDABLE.value, "Cannot tell"),
]

#: What a verdict may really have been. "Cannot tell" is a label of its own.
_DOMAINS = [
    ("", "Choose"),
    *((domain.value, wording.DOMAINS[domain].text) for domain in Domain),
]


class ReviewForm(forms.Form):
    """A person's label on a verdict, with what it really was when it was wrong."""

    label = forms.ChoiceField(
        choices=_LABELS,
        error_messages={"required": "Choose right, wrong or cannot tell."},
    )
    actual_domain = forms.ChoiceField(choices=_DOMAINS, required=False)
    actual_nodes = forms.CharField(required=False, max_length=2000, strip=True)
    note = forms.CharField(
        required=False,
        max_length=10_000,
        strip=True,
        error_messages={"max_length": "At most 10,000 characters; this note has %(show_value)d."},
    )

    def clean(self) -> dict[str, Any]:
        """Only "wrong" says what it was; what was chosen before the label changed is dropped."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if data.get("label") == Label.WRONG and "actual_domain" in data and not data["actual_domain"]:
            self.add_error("actual_domain", "Say what it really was.")
        if data.get("label") and data["label"] != Label.WRONG:
            data["actual_domain"] = data["actual_nodes"] = ""
        names = (name.strip() for name in (data.get("actual_nodes") or "").replace(";", ",").split(","))
        data["actual_nodes"] = [name for name in names if name]
        return data


class CommentForm(forms.Form):
    """A remark on a verdict."""

    text = forms.CharField(
        max_length=MOST_CHARACTERS,
        strip=True,
        error_messages={
            "required": "Write something first.",
            "max_length": "At most 10,000 characters; this comment has %(show_value)d.",
        },
    )
