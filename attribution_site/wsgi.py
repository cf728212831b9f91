"""The site for a WSGI server."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")

application = get_wsgi_application()

from attribution_site import health  # noqa: E402 - after the settings

# The first request shall not wait for the rules; with a master that loads the site, its workers share them.
health.ruleset_digest()
