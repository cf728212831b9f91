"""How gunicorn serves the site: `gunicorn -c python:attribution_site.gunicorn_conf attribution_site.wsgi`.

What differs between sites (address, number of workers) is given by gunicorn's own flags or GUNICORN_CMD_ARGS.
"""

import multiprocessing

worker_class = "gthread"
workers = min(4, multiprocessing.cpu_count())
threads = 4
timeout = 60
graceful_timeout = 20
keepalive = 5
max_requests = 20_000
max_requests_jitter = 2_000
# RequestLog writes a line for each request, with its id.
accesslog = None
# Who may set X-Forwarded-Proto is said once, by INQUEST_PROXIES.
forwarded_allow_ips = ""
control_socket_disable = True
