"""What a system may do wrong over HTTP ends within the budget, with words that say what it was."""

import base64
import gzip
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.verdicts.collectors.raw_server import Answer, RawServer, ok, raw_server, says, status
from verdicts.collectors import http, wire
from verdicts.collectors.ask import Budget, BudgetSpent, SourceError, Unreachable
from verdicts.collectors.http import Server, get_json

SECRET = "s3cr3t-T0ken-0f-0urs-77"


def a_budget(seconds: float = 5.0, megabytes: int = 8) -> Budget:
    return Budget.of(seconds=seconds, megabytes=megabytes)


def asked(raw: RawServer, budget: Budget | None = None, **settings: Any) -> Any:
    return get_json(raw.server(**settings), "/data", budget or a_budget(), dict[str, Any])


def the_error(
    *answers: Answer, kind: type[SourceError] = SourceError, budget: Budget | None = None, **settings: Any
) -> str:
    """What is said of answers that are none."""
    with raw_server(*answers) as raw, pytest.raises(kind) as caught:
        asked(raw, budget, **settings)
    return str(caught.value).replace(raw.url, "URL")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between tries nothing is waited for; that waiting is asked for is still seen."""
    monkeypatch.setattr(http.random, "random", lambda: 0.0)
    monkeypatch.setattr(http.time, "sleep", lambda _: None)


# --- answers --------------------------------------------------------------------------------------------------------


def test_an_answer_is_decoded() -> None:
    with raw_server(ok(b'{"a": 1}')) as raw:
        assert asked(raw) == {"a": 1}
    assert raw.requests[0].startswith(b"GET /data HTTP/1.1\r\n")


def test_a_body_makes_it_a_post() -> None:
    with raw_server(ok(b"{}")) as raw:
        get_json(raw.server(), "/data", a_budget(), dict[str, Any], form={"query": 'a="b"'})
    assert raw.requests[0].startswith(b"POST /data ")
    assert raw.requests[0].endswith(b"\r\n\r\nquery=a%3D%22b%22")


def test_a_question_stands_in_the_first_line_as_it_was_given() -> None:
    with raw_server(ok(b"{}")) as raw:
        server = Server(url=f"{raw.url}/logs")
        get_json(server, "/data", a_budget(), dict[str, Any], params={"query": '{a=~"ä b|c"} % \n', "limit": 10})
    assert raw.requests[0].startswith(
        b"GET /logs/data?query=%7Ba%3D~%22%C3%A4+b%7Cc%22%7D+%25+%0A&limit=10 HTTP/1.1\r\n"
    )


def test_what_is_packed_is_unpacked() -> None:
    packed = gzip.compress(b'{"a": ') + gzip.compress(b"1}")
    with raw_server(ok(packed, "Content-Encoding: gzip")) as raw:
        assert asked(raw) == {"a": 1}


def test_the_bytes_taken_are_the_unpacked_ones() -> None:
    budget = a_budget()
    body = b'{"a": "' + b"x" * 100_000 + b'"}'
    with raw_server(ok(gzip.compress(body), "Content-Encoding: gzip")) as raw:
        asked(raw, budget)
    assert budget.taken == len(body)


def test_a_path_before_the_interface_stays() -> None:
    with raw_server(ok(b"{}")) as raw:
        get_json(Server(url=f"{raw.url}/logs/"), "/data", a_budget(), dict[str, Any])
    assert raw.requests[0].startswith(b"GET /logs/data ")


# --- slow -----------------------------------------------------------------------------------------------------------


def hang(connection: socket.socket, request: bytes) -> None:
    connection.recv(1)  # until the other side gives up


def head_then_hang(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"a": ')
    connection.recv(1)


def trickle(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    pause = threading.Event()
    while True:
        connection.sendall(b" ")
        pause.wait(0.01)


def test_a_server_that_never_answers_ends_with_the_budget() -> None:
    budget = a_budget(0.3)
    assert the_error(hang, kind=Unreachable, budget=budget) == "URL: no answer within 0.3 s"


def test_a_server_that_stops_in_the_middle_ends_with_the_budget() -> None:
    said = the_error(head_then_hang, kind=Unreachable, budget=a_budget(0.4))
    assert said.startswith("URL/data: stopped answering in the middle of an answer: 6 bytes came, then nothing for 0.")


def test_a_server_that_trickles_ends_with_the_budget() -> None:
    said = the_error(trickle, kind=BudgetSpent, budget=a_budget(0.4))
    assert "not finished within" in said and "0.4 s" in said


def test_trickling_headers_end_with_the_budget() -> None:
    def answer(connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        pause = threading.Event()
        for number in range(10_000):
            connection.sendall(f"X-{number}: 1\r\n".encode())
            pause.wait(0.01)

    assert the_error(answer, kind=Unreachable, budget=a_budget(0.3)) == "URL: no answer within 0.3 s"


def test_one_answer_may_take_no_more_than_its_share() -> None:
    budget = a_budget(30)
    with raw_server(trickle) as raw, pytest.raises(SourceError, match=r"not finished within 0.2 s: still sending") as e:
        get_json(raw.server(), "/data", budget, dict[str, Any], seconds=0.2)
    assert not isinstance(e.value, BudgetSpent)
    assert budget.left() > 20


def test_a_budget_that_is_spent_asks_nothing() -> None:
    with raw_server(ok(b"{}")) as raw, pytest.raises(BudgetSpent):
        asked(raw, a_budget(-1))
    assert raw.requests == []


# --- large ----------------------------------------------------------------------------------------------------------


def test_more_bytes_than_allowed_end_it() -> None:
    body = b'{"a": "' + b"x" * (2 << 20) + b'"}'
    assert "more than 1 MiB; the rest was not read" in the_error(ok(body), budget=a_budget(5, 1), kind=BudgetSpent)


def test_one_answer_that_is_too_long_to_hold_says_so() -> None:
    body = b'{"a": "' + b"x" * (2 << 20) + b'"}'
    with raw_server(ok(body)) as raw, pytest.raises(http.TooLong, match="one answer of more than 1 MiB"):
        get_json(raw.server(), "/data", a_budget(), dict[str, Any], most=1 << 20)


def test_a_bomb_is_counted_as_what_it_unpacks_to() -> None:
    bomb = gzip.compress(b" " * (64 << 20))
    said = the_error(ok(bomb, "Content-Encoding: gzip"), kind=BudgetSpent, budget=a_budget(5, 2))
    assert "more than 2 MiB" in said


def test_a_packing_that_was_not_asked_for_is_not_unpacked() -> None:
    bomb = zstandard.compress(b" " * (64 << 20))
    said = the_error(ok(bomb, "Content-Encoding: zstd"))
    assert "the answer is packed with 'zstd', which was not asked for" in said


FLOOD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
sys.path.insert(0, ".")
from tests.verdicts.collectors.raw_server import raw_server
from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.http import get_json, stream

def flood(connection, request):
    connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 10737418240\\r\\n\\r\\n")
    for _ in range(10_240):
        connection.sendall(b" " * (1 << 20))

with raw_server(flood) as raw:
    try:
        get_json(raw.server(), "/", Budget.of(seconds=60, megabytes=4096), dict)
    except SourceError as error:
        print(error)
    before, got = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    try:
        with stream(raw.server(), "/", Budget.of(seconds=60, megabytes=300)) as pieces:
            for piece in pieces:
                got += len(piece)
    except SourceError as error:
        print(error, got >> 20)
    print("grew by", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_ten_gigabytes_are_not_held_in_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FLOOD], capture_output=True, text=True, timeout=120, check=True, cwd=Path.cwd()
    )
    whole, streamed, grown = done.stdout.splitlines()
    assert whole.endswith("one answer of more than 64 MiB: ask for less at once")
    assert streamed.startswith("more than 300 MiB; the rest was not read ")
    assert int(grown.removeprefix("grew by ")) < 50


# --- cut off, damaged, something else -------------------------------------------------------------------------------


def test_an_answer_shorter_than_it_promised_was_cut_off() -> None:
    cut = says("HTTP/1.1 200 OK\nContent-Length: 50", b'{"a": 1')
    said = the_error(cut, kind=http.CutOff)
    assert said.startswith("URL/data: the answer was cut off after 7 bytes: ")


def test_a_chunk_that_never_ends_was_cut_off() -> None:
    cut = says("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b'7\r\n{"a": 1\r\n5\r\nab')
    assert "the answer was cut off after 9 bytes" in the_error(cut, kind=http.CutOff)


def test_a_packed_answer_without_its_end_was_cut_off() -> None:
    cut = ok(gzip.compress(b'{"a": 1}' * 100)[:-9], "Content-Encoding: gzip")
    assert "the packed data has no end" in the_error(cut, kind=http.CutOff)


def test_a_damaged_packed_answer_is_said_to_be_damaged() -> None:
    assert "the packed answer is damaged after 0 bytes" in the_error(ok(b"not packed", "Content-Encoding: gzip"))


def test_what_was_cut_off_is_asked_for_once_more() -> None:
    with raw_server(says("HTTP/1.1 200 OK\nContent-Length: 50", b"{"), ok(b'{"a": 1}')) as raw:
        assert asked(raw) == {"a": 1}
    assert len(raw.requests) == 2


def test_a_stream_is_not_asked_for_again_after_its_first_piece() -> None:
    cut = says("HTTP/1.1 200 OK\nContent-Length: 50", b"first\n")
    with (
        raw_server(cut) as raw,
        pytest.raises(http.CutOff),
        http.stream(raw.server(), "/data", a_budget()) as pieces,
    ):
        b"".join(pieces)
    assert len(raw.requests) == 1


def test_a_connection_that_closes_without_a_word_is_tried_again() -> None:
    with raw_server(lambda *_: None, ok(b"{}")) as raw:
        assert asked(raw) == {}
    assert len(raw.requests) == 2


def test_what_is_no_http_is_said() -> None:
    said = the_error(lambda connection, _: connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), kind=Unreachable)
    assert said.startswith("URL: ")


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN}', b"[1]", b"[" * 100_000])
def test_what_is_not_the_expected_data_is_said(body: bytes) -> None:
    assert the_error(ok(body)).startswith("URL/data: the answer is not what was expected: ")


def test_data_with_another_type_than_promised_is_taken() -> None:
    with raw_server(says("HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Length: 2", b"{}")) as raw:
        assert asked(raw) == {}


def test_a_page_to_log_in_is_recognised() -> None:
    page = b"<!doctype html><style>p {color: red}</style><title>Sign in</title><p>Welcome &amp; hello</p><script>x()"
    said = the_error(says(f"HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: {len(page)}", page))
    assert said == "URL/data: a web page instead of data (Sign in Welcome & hello): is there a login before it?"


# --- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "body", "wanted"),
    [
        (400, b"parse error at line 1, col 5", "HTTP 400: parse error at line 1, col 5"),
        (401, b"no", "HTTP 401: not let in: is the token right?: no"),
        (403, b"", "HTTP 403: not allowed"),
        (404, b"404 page not found\n", "HTTP 404: not there: is the address right?: 404 page not found"),
        (422, b'{"status":"error","errorType":"execution","error":"too many samples"}', "HTTP 422: too many samples"),
        (
            400,
            b'{"error":{"root_cause":[{"type":"x","reason":"No mapping found for [t]"}],"reason":"all shards failed"}}',
            "HTTP 400: all shards failed: No mapping found for [t]",
        ),
        (400, b'{"kind":"Status","message":"pods is forbidden"}', "HTTP 400: pods is forbidden"),
        (418, b"<html><h1>I am a\n teapot</h1>", "HTTP 418: I am a teapot"),
        (400, b'{"other": 1}', 'HTTP 400: {"other": 1}'),
    ],
)
def test_the_servers_own_words_are_shown(code: int, body: bytes, wanted: str) -> None:
    assert the_error(status(code, body), kind=http.Refused) == f"URL/data: {wanted}"


def test_a_refusal_is_not_asked_for_again() -> None:
    with raw_server(status(403)) as raw, pytest.raises(http.Refused) as caught:
        asked(raw)
    assert len(raw.requests) == 1
    assert caught.value.status == 403
    assert not isinstance(caught.value, Unreachable)


def test_of_a_long_refusal_only_the_beginning_is_read() -> None:
    said = the_error(says("HTTP/1.1 400 No\nContent-Length: 10737418240", b"word " * 50_000), kind=http.Refused)
    assert len(said) < 400


def test_a_refusal_that_never_ends_still_ends() -> None:
    def answer(connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 400 No\r\nContent-Length: 100\r\n\r\nbecause")
        connection.recv(1)

    assert the_error(answer, budget=a_budget(0.3)) == "URL/data: HTTP 400: because (cut off)"


def test_a_redirect_is_not_followed() -> None:
    elsewhere = status(302, b"", "Location: http://169.254.169.254/latest/meta-data/")
    with raw_server(elsewhere) as raw, pytest.raises(http.Refused) as caught:
        asked(raw)
    assert "it points to 'http://169.254.169.254/latest/meta-data/'; redirects are not followed" in str(caught.value)
    assert len(raw.requests) == 1


@pytest.mark.parametrize("code", sorted(http.RETRIED))
def test_an_overloaded_server_is_asked_again(code: int) -> None:
    with raw_server(status(code), status(code), ok(b"{}")) as raw:
        assert asked(raw) == {}
    assert len(raw.requests) == 3


def test_a_server_that_stays_overloaded_counts_as_unreachable() -> None:
    assert the_error(status(503, b"too busy"), kind=Unreachable) == "URL/data: HTTP 503: too busy"


def test_a_server_says_how_long_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(http.time, "sleep", waited.append)
    with raw_server(status(429, b"", "Retry-After: 2"), ok(b"{}")) as raw:
        asked(raw)
    assert waited == [2.0]


def test_a_server_says_until_when_to_wait() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    said = the_error(status(503, b"", f"Retry-After: {later}"), kind=Unreachable)
    assert said.startswith("URL/data: HTTP 503: asked to wait 3") and "longer than the" in said


def test_a_wait_longer_than_the_budget_is_not_begun() -> None:
    said = the_error(status(429, b"", "Retry-After: 600"), kind=Unreachable, budget=a_budget(2))
    assert said.startswith("URL/data: HTTP 429: asked to wait 600 s, longer than the ")


@pytest.mark.parametrize("after", ["²", "-5", "soon", "9" * 400, "", "Wed, 99 Foo 2026"])
def test_a_wait_that_is_none_is_passed_over(after: str) -> None:
    def answer(connection: socket.socket, request: bytes) -> None:
        connection.sendall(f"HTTP/1.1 503 No\r\nContent-Length: 0\r\nRetry-After: {after}\r\n\r\n".encode())

    with raw_server(answer, ok(b"{}")) as raw:
        assert asked(raw) == {}


# --- unreachable ----------------------------------------------------------------------------------------------------


def test_a_closed_port_is_said_to_be_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match=f"http://127.0.0.1:{port}: .*refused"):
        get_json(Server(url=f"http://127.0.0.1:{port}"), "/", a_budget(), dict)


def test_a_name_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(wire.socket, "getaddrinfo", unknown)
    with pytest.raises(Unreachable, match=r"the name loki.example cannot be resolved: Name or service not known"):
        get_json(Server(url="http://loki.example"), "/", a_budget(), dict)


def test_a_resolver_that_hangs_ends_with_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def wait(*_: object, **__: object) -> list[object]:
        release.wait(30)
        return []

    monkeypatch.setattr(wire.socket, "getaddrinfo", wait)
    with pytest.raises(Unreachable, match=r"the name hangs.example was not resolved in time within 0.3 s"):
        get_json(Server(url="http://hangs.example"), "/", a_budget(0.3), dict)
    release.set()


def test_each_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server(ok(b"{}")) as raw:
        monkeypatch.setattr(wire, "_addresses", lambda *_: ["127.0.0.2", "127.0.0.1"])
        assert get_json(Server(url=f"http://two.example:{raw.port}"), "/", a_budget(), dict) == {}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that nobody vouches for, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    path.write_bytes(
        made.public_bytes(pem) + key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    )
    return path


@pytest.fixture
def tls_url(certificate: Path) -> Iterator[str]:
    """A server that speaks TLS with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answer(connection: socket.socket) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) as secured:
                secured.recv(65_536)
                secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        except OSError:
            connection.close()  # the other side did not trust us

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def listen() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                answer(connection)

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield f"https://localhost:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(tls_url: str) -> None:
    with pytest.raises(Unreachable, match=r"its certificate is not trusted \(self-signed certificate\): set server"):
        get_json(Server(url=tls_url), "/", a_budget(), dict)


def test_an_authority_of_our_own_is_trusted(tls_url: str, certificate: Path) -> None:
    assert get_json(Server(url=tls_url, ca_file=str(certificate)), "/", a_budget(), dict) == {}


def test_a_missing_authority_is_said(tls_url: str) -> None:
    with pytest.raises(SourceError, match=r"ca_file, cert_file or key_file cannot be used: .*No such file"):
        get_json(Server(url=tls_url, ca_file="/nowhere.pem"), "/", a_budget(), dict)


def test_plain_http_where_tls_was_wanted_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Unreachable, match="no TLS with it: is it https at all"):
            get_json(Server(url=url), "/", a_budget(2), dict)
        thread.join(5)


# --- secrets --------------------------------------------------------------------------------------------------------


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    return str(path)


def echo(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n%s" % (len(request), request))


def test_a_token_is_sent(token_file: str) -> None:
    with raw_server(ok(b"{}")) as raw:
        asked(raw, token_file=token_file)
    assert f"authorization: bearer {SECRET}".lower() in raw.requests[0].decode().lower()


def test_a_token_may_go_into_another_header(token_file: str) -> None:
    with raw_server(ok(b"{}")) as raw:
        asked(raw, token_file=token_file, auth_header="X-Api-Key")
    assert f"\r\nX-Api-Key: {SECRET}\r\n" in raw.requests[0].decode()


def test_a_token_may_have_another_scheme(token_file: str) -> None:
    with raw_server(ok(b"{}")) as raw:
        asked(raw, token_file=token_file, auth_scheme="ApiKey")
    assert f"\r\nAuthorization: ApiKey {SECRET}\r\n" in raw.requests[0].decode()


@pytest.mark.parametrize("settings", [{}, {"auth_header": "X-Api-Key"}, {"auth_scheme": "ApiKey"}])
def test_a_token_that_is_echoed_is_not_shown(token_file: str, settings: dict[str, str]) -> None:
    said = the_error(echo, token_file=token_file, **settings)
    assert SECRET not in said
    assert "[redacted" in said


def test_a_password_that_is_echoed_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKI_PASSWORD", "pass:w0rd")
    said = the_error(echo, user="inquest", password_env="LOKI_PASSWORD")
    assert base64.b64encode(b"inquest:pass:w0rd").decode() not in said
    assert "w0rd" not in said


def test_secrets_in_an_errors_json_are_not_shown(token_file: str) -> None:
    body = msgspec.json.encode({"error": f"token {SECRET} is not known"})
    said = the_error(status(401, body), token_file=token_file)
    assert said.endswith("token [redacted: credentials] is not known")


def test_secrets_in_a_redirect_are_not_shown(token_file: str) -> None:
    said = the_error(status(307, b"", f"Location: http://other/?token={SECRET}"), token_file=token_file)
    assert SECRET not in said


@pytest.mark.parametrize("content", [f"{SECRET}\nsecond line", f"{SECRET}\x00", f"é{SECRET}", f"{SECRET} two"])
def test_a_token_that_cannot_be_one_is_said_without_showing_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    with pytest.raises(SourceError, match="holds more than a token") as caught:
        Server(url="http://x", token_file=str(path)).credentials()
    assert SECRET not in str(caught.value)


def test_secrets_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_TOKEN", raising=False)
    with pytest.raises(SourceError, match="token_env: the environment variable NO_TOKEN is not set"):
        Server(url="http://x", token_env="NO_TOKEN").credentials()
    with pytest.raises(SourceError, match="token_file: /nowhere cannot be read: No such file or directory"):
        Server(url="http://x", token_file="/nowhere").credentials()
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(SourceError, match="is empty"):
        Server(url="http://x", token_file=str(tmp_path / "empty")).credentials()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError, match="is no text"):
        Server(url="http://x", token_file=str(tmp_path / "bytes")).credentials()


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://user:pw@x", "http://", "x", "http://x/?q=1", "http://x#y", "http://a b"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"url": url}, Server)


@pytest.mark.parametrize("headers", [{"X-A": "1\r\nX-B: 2"}, {"X A": "1"}, {"": "1"}, {"X-A": "é"}])
def test_headers_that_are_none_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError, match="headers: "):
        msgspec.convert({"url": "http://x", "headers": headers}, Server)


def test_files_that_are_not_there_are_found_at_start(token_file: str) -> None:
    Server(url="http://x", token_file=token_file).check()
    with pytest.raises(ValueError, match=r"server.ca_file: /nowhere cannot be read"):
        Server(url="http://x", ca_file="/nowhere").check()
    with pytest.raises(ValueError, match="only one of them"):
        Server(url="http://x", token_file=token_file, token_env="X").check()
    with pytest.raises(ValueError, match=r"server.user"):
        Server(url="http://x", token_file=token_file, user="x").check()


# --- together -------------------------------------------------------------------------------------------------------


def test_a_hundred_threads_share_the_connections() -> None:
    with raw_server(ok(b'{"a": 1}')) as raw:
        budget = a_budget(60)
        server = raw.server()
        with ThreadPoolExecutor(100) as threads:
            answers = list(threads.map(lambda _: get_json(server, "/", budget, dict), range(400)))
    assert answers == [{"a": 1}] * 400
    assert len(raw.requests) == 400


def test_a_server_that_hangs_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_CONNECTIONS", 2)
    release, arrived = threading.Event(), threading.Barrier(3)

    def wait(connection: socket.socket, request: bytes) -> None:
        if not release.is_set():
            arrived.wait(10)
        release.wait(10)

    with raw_server(wait) as slow, raw_server(ok(b"{}")) as quick, ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(asked, slow, a_budget(20)) for _ in range(2)]
        arrived.wait(10)
        assert asked(quick) == {}
        with pytest.raises(BudgetSpent, match=r"all 2 connections to it were in use for 0.2 s"):
            asked(slow, a_budget(0.2))
        release.set()
        assert all(isinstance(one.exception(), Unreachable) for one in waiting)


def test_a_servers_cookies_are_not_kept() -> None:
    with raw_server(ok(b"{}", "Set-Cookie: session=1")) as raw:
        asked(raw)
        asked(raw)
    assert b"session=1" not in raw.requests[1]


def test_the_other_sides_clock_is_read() -> None:
    with raw_server(ok(b"{}", "Date: Mon, 30 Nov 2026 11:00:00 GMT")) as raw:
        assert http.clock(raw.server(), "/", a_budget()) == datetime(2026, 11, 30, 11, tzinfo=UTC)
    with raw_server(ok(b"{}", "Date: yesterday")) as raw:
        assert http.clock(raw.server(), "/", a_budget()) is None
    with raw_server(ok(b"{}")) as raw:
        assert http.clock(raw.server(), "/", a_budget()) is None


def test_pieces_of_a_packed_answer_are_bounded() -> None:
    packed = gzip.compress(b"x" * (8 << 20))
    with (
        raw_server(ok(packed, "Content-Encoding: gzip")) as raw,
        http.stream(raw.server(), "/", a_budget(5, 16)) as pieces,
    ):
        sizes = [len(piece) for piece in pieces]
    assert sum(sizes) == 8 << 20
    assert max(sizes) <= http.PIECE
