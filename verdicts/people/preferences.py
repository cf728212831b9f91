"""What a person set for their own console: kept in the database, and carried by cookies so that no page asks for it."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse

from rules.attempt import InputError
from verdicts import zones
from verdicts.models import Preference

THEMES = ("system", "light", "dark")
#: The zone that was chosen, the zone that the browser says, and the theme.
ZONE, BROWSER_ZONE, THEME = "zone_chosen", "zone", "theme"
_YEAR = 365 * 24 * 3600


@dataclass(frozen=True)
class Chosen:
    """Somebody's choices; an empty zone is that of the browser."""

    zone: str = ""
    theme: str = "system"
    shortcuts: bool = True


def of(user: User) -> Chosen:
    """What somebody chose, or how it is for those who chose nothing."""
    row = Preference.objects.filter(user=user).first()
    return Chosen(row.zone, row.theme or "system", row.shortcuts) if row else Chosen()


def choose(chosen: Chosen, *, by: User) -> None:
    """Keep somebody's choices. Raises InputError."""
    if chosen.zone and zones.named(chosen.zone) is None:
        raise InputError("zone: no such time zone")
    if chosen.theme not in THEMES:
        raise InputError("theme: system, light or dark")
    kept = {"zone": chosen.zone, "theme": chosen.theme, "shortcuts": chosen.shortcuts}
    Preference.objects.update_or_create(user=by, defaults=kept)


def carry(chosen: Chosen, request: HttpRequest, response: HttpResponse) -> None:
    """Put the choices into the cookies of an answer, and take out those of whoever was here before."""
    for name, value in ((ZONE, chosen.zone), (THEME, chosen.theme if chosen.theme != "system" else "")):
        if value:
            # Not HttpOnly: the theme button changes its cookie.
            response.set_cookie(name, value, max_age=_YEAR, samesite="Lax", secure=request.is_secure())
        elif name in request.COOKIES:
            response.delete_cookie(name, samesite="Lax")


def carry_at_login(request: HttpRequest, response: HttpResponse) -> None:
    """After a log-in: the choices of who just came. Without any, the theme that this browser has is left alone."""
    chosen = of(request.user)  # type: ignore[arg-type]
    if chosen == Chosen(shortcuts=chosen.shortcuts):
        response.delete_cookie(ZONE, samesite="Lax")
        return
    carry(chosen, request, response)
