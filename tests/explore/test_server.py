"""The explorer's server: who may ask, what is refused, and that nothing brings it down."""

import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import deeppqr
from deeppqr.explore import serve
from deeppqr.explore._server import HEADERS, MAX_BODY, PAGES

QUESTION = {"state": [0.0, 0, 0], "along": 0}
JSON = {"content-type": "application/json"}


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self):
        return self.content.decode()

    def json(self):
        return json.loads(self.content)


@dataclass
class Client:
    """Asks a running server, with any headers."""

    port: int
    secret: str

    def ask(self, method, path, content=None, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = dict(headers)
        connection.putrequest(method, path, skip_host="host" in sent)
        for name, value in sent.items():
            connection.putheader(name, value)
        if content is not None:
            connection.putheader("content-length", str(len(content)))
        connection.endheaders(content)
        reply = connection.getresponse()
        found = {name.lower(): value for name, value in reply.getheaders()}
        content = reply.read()
        connection.close()
        return Reply(reply.status, found, content)

    def get(self, file, headers=()):
        return self.ask("GET", f"/{self.secret}/{file}", headers=headers)

    def post(self, file, question: Any, headers=()):
        content = json.dumps(question).encode()
        return self.ask(
            "POST", f"/{self.secret}/{file}", content, {**JSON, **dict(headers)}
        )


@pytest.fixture(scope="module")
def client(hostile_fit):
    """A server of its own thread, until the tests end."""
    found: list[str] = []
    options = {"name": "<b>run</b>", "started": found.append}
    serving = threading.Thread(
        target=serve, args=(hostile_fit,), kwargs=options, daemon=True
    )
    serving.start()
    while not found:
        time.sleep(0.01)
    address, _, secret = found[0].removeprefix("http://").rstrip("/").partition("/")
    return Client(int(address.rpartition(":")[2]), secret)


def test_the_page_and_its_parts(client):
    for file, media in PAGES.items():
        reply = client.get(file)
        assert reply.status == 200, file
        assert reply.headers["content-type"] == media
    assert client.get("").text == client.get("index.html").text
    about = client.get("fit.json").json()
    assert about["name"] == "<b>run</b>"  # as text; the page never parses it
    assert about["rows"] == 600


def test_the_page_asks_for_nothing_from_elsewhere(client):
    for file in PAGES:
        text = client.get(file).text
        outside = text.replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in outside, file
        assert "https:" not in outside, file
        # Markup is made of elements and text, never of strings.
        assert "innerHTML" not in text, file
        assert "insertAdjacentHTML" not in text, file
    assert "unsafe" not in HEADERS["content-security-policy"]


def test_questions_are_answered(client):
    reply = client.post("state", QUESTION)
    assert reply.status == 200
    assert len(reply.json()["table"]["reward"]) == 3
    question = {"kind": "state", "column": 0, "value": 0.5}
    reply = client.post("counterfactual", question)
    assert reply.json()["title"] == "price = 0.5"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:8000"},  # another name for this machine
        {"host": "127.0.0.1:1"},
        {"host": "127.0.0.1"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},  # another port of this machine
    ],
    ids=str,
)
def test_other_origins_are_refused(headers, client):
    for ask in (
        lambda: client.get("fit.json", headers),
        lambda: client.post("state", QUESTION, headers),
    ):
        assert ask().status == 403


def test_the_page_itself_may_ask(client):
    for name in ("127.0.0.1", "localhost"):
        host = f"{name}:{client.port}"
        headers = {
            "host": host,
            "origin": f"http://{host}",
            "sec-fetch-site": "same-origin",
        }
        assert client.post("state", QUESTION, headers).status == 200


@pytest.mark.parametrize(
    "path", ["/", "/state", "/wrong/", "/wrong/fit.json", "/%00/", "//"]
)
def test_the_address_needs_its_secret(path, client):
    assert client.ask("GET", path).status == 403


@pytest.mark.parametrize(
    "file", ["..%2f..%2fmodel.json", "%2e%2e/secret", "fit.json%00", ".bashrc", "app.js/x"]
)
def test_there_are_no_other_files(file, client):
    assert client.get(file).status in (403, 404)


@pytest.mark.parametrize(
    ("content", "media", "status"),
    [
        (b'{"state": [0, 0, 0]}', "text/plain", 415),
        (b'{"state": [0, 0, 0]}', "application/x-www-form-urlencoded", 415),
        (b"{", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[1, 2]", "application/json", 400),
        (b'{"state": [NaN, 0, 0]}', "application/json", 400),
        (b"[" * 50_000, "application/json", 400),
        (b" " * (MAX_BODY + 1), "application/json", 413),
        (b'{"state": [0, 0]}', "application/json", 422),
        (b'{"state": [1e999, 0, 0]}', "application/json", 422),
    ],
)
def test_bad_questions_are_refused_in_words(content, media, status, client):
    path = f"/{client.secret}/state"
    reply = client.ask("POST", path, content, {"content-type": media})
    assert reply.status == status
    assert set(reply.json()) == {"error"}
    assert "Traceback" not in reply.text
    assert client.post("state", QUESTION).status == 200


def test_every_reply_has_the_headers(client):
    replies = [
        client.get(""),
        client.ask("GET", "/"),
        client.get("nothing"),
        client.post("state", {}),
        client.ask("PUT", f"/{client.secret}/state", b"{}"),
    ]
    for reply in replies:
        for name, value in HEADERS.items():
            assert reply.headers[name] == value


def test_an_error_of_ours_says_nothing_of_the_machine(client, monkeypatch):
    def fail(*arguments):
        raise ZeroDivisionError("/home/somebody/secret")

    monkeypatch.setattr("deeppqr.explore._server.what_if", fail)
    reply = client.post("counterfactual", {"kind": "state"})
    assert reply.status == 500
    assert "somebody" not in reply.text
    assert client.post("state", QUESTION).status == 200


def test_several_tabs_at_once(client):
    """The same answers as one after the other."""
    questions = [{"state": [x / 10, 0, 0], "along": 0} for x in range(8)]
    ask = lambda question: client.post("state", question).json()
    expected = [ask(question) for question in questions]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, questions)) == expected


def test_a_port_in_use_is_named(hostile_fit):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(deeppqr.DeepPQRError, match=f"Port {port} cannot be used"):
            serve(hostile_fit, port=port)
    with pytest.raises(deeppqr.DeepPQRError, match="lies between 0 and 65535"):
        serve(hostile_fit, port=70_000)


def test_it_listens_to_this_machine_alone(client):
    """The socket is bound to 127.0.0.1 and to no other address, such as 127.0.0.2."""
    for address, reached in (("127.0.0.1", True), ("127.0.0.2", False)):
        with socket.socket() as other:
            other.settimeout(2)
            assert (other.connect_ex((address, client.port)) == 0) is reached
