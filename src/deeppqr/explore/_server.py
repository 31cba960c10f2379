"""The page's server: loopback only, one secret address, every request checked.

Starlette and uvicorn, because between them they bring routing, a thread for each question
and a server meant for more than development, with four small pure-Python dependencies and a
tenth of a second at the start. The page needs nothing from a template language, as the
browser builds it from JSON by `textContent`.
"""

import hmac
import json
import secrets
import socket
import traceback
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from .._errors import DeepPQRError
from ._answers import Answers
from ._text import as_json
from ._what_if import what_if

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from .._fit import Fit

LOOPBACK = "127.0.0.1"
MAX_BODY = 65_536  # bytes of a question; one about 1,000 columns has 20 kB
# Nothing from elsewhere, no inline script or style, and in nobody's frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",  # the address holds the secret
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
PAGES = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def serve(
    fit: "Fit", *, name: str = "fit", port: int = 0, started: Callable[[str], Any] = print
) -> None:
    """Serve a page about a fit on this machine until interrupted.

    Parameters
    ----------
    name
        What the page calls the fit.
    port
        0 for one that is free.
    started
        Called with the page's address.
    """
    _require_packages()
    import uvicorn

    connection = _bound(port)
    address = f"{LOOPBACK}:{connection.getsockname()[1]}"
    secret = secrets.token_urlsafe(16)
    app = make_app(Answers.of(fit, name), address, secret)
    settings = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")
    with connection:
        # From here on the system keeps who asks waiting until the server takes over.
        connection.listen()
        started(f"http://{address}/{secret}/")
        uvicorn.Server(settings).run(sockets=[connection])


def make_app(answers: Answers, address: str, secret: str) -> "Starlette":
    """The application: the page, what it shows first, and answers to its questions."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    about = as_json(answers.about())
    contents = {file: files("deeppqr.explore").joinpath("static", file) for file in PAGES}
    static = {file: path.read_bytes() for file, path in contents.items()}

    def respond(content: bytes, media: str = "application/json", status: int = 200):
        return Response(content, status, media_type=media)

    def refuse(message: str, status: int):
        return respond(as_json({"error": message}), status=status)

    def page(request: Request):
        file = request.path_params.get("file") or "index.html"
        if file == "fit.json":
            return respond(about)
        if file not in static:
            return refuse("There is no such page.", 404)
        return respond(static[file], PAGES[file])

    def answering(answer: Callable[[dict[str, Any]], dict[str, Any]]):
        def computed(question: dict[str, Any]):
            try:
                return respond(as_json(answer(question)))
            except DeepPQRError as problem:
                return refuse(str(problem), 422)
            except MemoryError:
                return refuse("There is not enough memory for this question.", 507)
            except Exception:
                # For the terminal: a page must not show what the machine looks like.
                traceback.print_exc()
                message = "An error in deeppqr itself; the terminal says which."
                return refuse(message, 500)

        async def endpoint(request: Request):
            from starlette.concurrency import run_in_threadpool

            media = request.headers.get("content-type", "").partition(";")[0].strip()
            # A form on another page can send plain text, and never this.
            if media != "application/json":
                return refuse("A question must be application/json.", 415)
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY:
                    return refuse(f"A question may have {MAX_BODY:,} bytes.", 413)
            try:
                question = json.loads(body, parse_constant=_refuse_constant)
            except (ValueError, RecursionError):
                return refuse("The question is no JSON of finite numbers.", 400)
            if not isinstance(question, dict):
                return refuse("A question must be a JSON object.", 400)
            # In a thread: a long answer for one tab must not hold up another.
            return await run_in_threadpool(computed, question)

        return endpoint

    async def not_found(request: Request, problem: Exception):
        return refuse("There is no such page.", 404)

    async def not_allowed(request: Request, problem: Exception):
        return refuse("This page is asked in another way.", 405)

    scenario = lambda question: what_if(answers.fit, answers.controls, question)
    routes = [
        Route("/{secret}/state", answering(answers.at_state), methods=["POST"]),
        Route("/{secret}/counterfactual", answering(scenario), methods=["POST"]),
        Route("/{secret}/", page),
        Route("/{secret}/{file}", page),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(_Guard, address=address, secret=secret)],
        exception_handlers={404: not_found, 405: not_allowed},
    )


class _Guard:
    """Refuses requests that do not come from the page itself, and adds the headers."""

    def __init__(self, app: Any, address: str, secret: str):
        self.app, self.secret = app, secret.encode()
        port = address.rpartition(":")[2]
        self.hosts = {address, f"localhost:{port}"}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope, receive, send):
        async def with_headers(message):
            if message["type"] == "http.response.start":
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        if scope["type"] != "http":  # the page opens no other kind of connection
            return
        reason = self._objection(scope)
        if reason is None:
            await self.app(scope, receive, with_headers)
            return
        from starlette.responses import Response

        content = as_json({"error": reason})
        response = Response(content, 403, media_type="application/json")
        await response(scope, receive, with_headers)

    def _objection(self, scope) -> str | None:
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value.decode("latin-1"))
        # A name that another site has pointed at this machine is not ours.
        host = headers.get(b"host", [])
        if len(host) != 1 or host[0] not in self.hosts:
            return "The page answers under its own address only."
        origin = headers.get(b"origin", [])
        if any(each not in self.origins for each in origin):
            return "Pages of other origins may not ask."
        # A navigation that the user begins, by a link in the terminal, is "none".
        site = headers.get(b"sec-fetch-site", ["none"])
        if any(each not in ("none", "same-origin") for each in site):
            return "Pages of other origins may not ask."
        given = scope["path"].split("/")[1].encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self.secret):
            return "The address lacks the secret that the terminal shows."
        return None


def _refuse_constant(text: str) -> float:
    raise ValueError(text)


def _bound(port: int) -> socket.socket:
    """A listening socket, so that the address is known and free before anything starts."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.bind((LOOPBACK, port))
    except (OSError, OverflowError) as problem:
        connection.close()
        reason = getattr(problem, "strerror", None) or "a port lies between 0 and 65535"
        raise DeepPQRError(
            f"Port {port} cannot be used: {reason}. Choose another one, or leave out "
            "`port` for one that is free."
        ) from problem
    return connection


def _require_packages() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as problem:
        raise DeepPQRError(
            f"The explorer needs the package {problem.name}: pip install "
            "'deeppqr[explore]'."
        ) from None
