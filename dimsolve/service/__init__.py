"""The HTTP service: the Python functions for other programs, over JSON.

    $ dimsolve serve --port 8000
    $ curl -H 'Content-Type: application/json' localhost:8000/v1/prove -d '{"claim": "n > 0"}'
    {"verdict": "proved", "reason": "n > 0 for all values", ...}

A question takes one of two ways. The usual one is certainly cheap and is answered where it is read;
any other is answered by a worker process, which is killed when its time is over: a thread cannot be
stopped while big integers hold the interpreter.

    server      sockets, connections, signals            app            routes, /openapi.json, pages
    requests    from a request to its response           pool           workers with a deadline
    questions   what may be asked, as data               plans          the same for /v1/plan
    answers     from a question to a reply               replies        replies, refusals, limits
    reference   /docs, from /openapi.json                observability  metrics and logs

This module imports nothing: workers need no web framework.
"""
