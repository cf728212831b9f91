"""What is this site's own. Everything that counts, measures, proposes or acts asks here; lists show more, marked.

Left out are attempts that came from another site as a record, and those that a retention drill makes up. The list's
own table has the origin in each row, side by side with what its indexes carry; it has no row of a drill.
"""

from django.db.models import Q

from verdicts.choices import Origin

#: The same for statements on `verdicts_listrow AS row`.
OWN_ROW = f"row.origin = '{Origin.OWN.value}'"
#: And as a filter of the list, so that a number and the list that it leads to agree.
OWN_LIST = {"origin": Origin.OWN.value}

#: Why nothing is done about an attempt that is not.
NOT_OWN = {
    Origin.IMPORTED: "it was imported from another site",
    Origin.DRILL: "it was made up for a retention drill",
}


def own(attempt: str = "") -> Q:
    """The site's own attempts, or list rows; of other rows those whose attempt, reached by that path, is its own."""
    return Q(**{f"{attempt}__origin" if attempt else "origin": Origin.OWN.value})
