"""The roles by their names. What each may do is in `verdicts/migrations`; who has one is a group's membership."""

ADMINISTRATOR = "administrator"
ROLES = ("viewer", "reviewer", "operator", "lead", "policy admin", ADMINISTRATOR)
