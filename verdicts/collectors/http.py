"""HTTP to the systems of a cluster: a budget for each answer, retries where they are safe, exact words for what failed.

Addresses come from the configuration alone. Redirects are not followed: they could lead anywhere. What a server says
is shown without our own secrets in it, whatever it echoes.
"""

import html
import random
import re
import ssl
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import httpx2
import msgspec

from verdicts.collectors import wire
from verdicts.collectors.ask import Budget, BudgetSpent, SourceError, Unreachable
from verdicts.collectors.mend import decode
from verdicts.collectors.server import Server, secrets_in, without

T = TypeVar("T")
Params = Mapping[str, str | int | float]

#: Answers that may be better a moment later. Only requests that change nothing are made here.
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
TRIES = 3
CONNECT_SECONDS = 5.0
#: Of an answer that is an error so many bytes are read, and so many characters shown.
MAX_ERROR, SHOWN_ERROR = 8_192, 300
#: One answer that must be held as a whole; what is longer has to be asked for in pages or streamed.
MAX_ANSWER = 64 << 20
#: Unpacked pieces of an answer are no larger.
PIECE = 1 << 18


class CutOff(Unreachable):
    """An answer that ended before its end."""


class TooLong(SourceError):
    """An answer that is longer than what may be held at once; ask for less of it."""


class Refused(SourceError):
    """The server's no: `status` is HTTP's, `said` its own words."""

    def __init__(self, message: str, status: int, said: str) -> None:
        super().__init__(message)
        self.status, self.said = status, said


class Overloaded(Refused, Unreachable):
    """The server's "not now", three times over."""


@contextmanager
def stream(
    server: Server,
    path: str,
    budget: Budget,
    *,
    params: Params | None = None,
    json: object = None,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    method: str = "",
    seconds: float | None = None,
    tries: int = TRIES,
) -> Iterator[Iterator[bytes]]:
    """The answer's body in pieces, as they come, within the budget; within `seconds` of it where given.

    Tried up to `tries` times where the server cannot be reached or says that it is overloaded; not after the first
    piece.
    Raises Unreachable, BudgetSpent, and Refused with the server's own words for a no.
    """
    request = _Request(server, path, budget, params, json, form, headers, method, seconds, tries)
    response = request.send()
    try:
        yield request.pieces(response)
    finally:
        response.close()


def get_json(
    server: Server,
    path: str,
    budget: Budget,
    answer: type[T],
    *,
    params: Params | None = None,
    json: object = None,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    method: str = "",
    seconds: float | None = None,
    most: int = MAX_ANSWER,
) -> T:
    """The whole answer, decoded. A body (`json`, `form`) makes it a POST. Tried again when it was cut off.

    Raises SourceError as `stream` does, and TooLong for an answer of more than `most` bytes.
    """
    for tried in range(1, TRIES + 1):
        request = _Request(server, path, budget, params, json, form, headers, method, seconds)
        response = request.send()
        try:
            raw = bytearray()
            for piece in request.pieces(response):
                raw += piece
                if len(raw) > most:
                    raise TooLong(f"{request.where}: one answer of more than {most >> 20} MiB: ask for less at once")
            break
        except CutOff:
            if tried == TRIES:
                raise
            _pause(tried, budget.left())
        finally:
            response.close()
    try:
        return decode(raw, answer)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        if "html" in kind or raw.lstrip()[:1] == b"<":
            told = f"a web page instead of data ({request.words(bytes(raw[:MAX_ERROR]))}): is there a login before it?"
            raise SourceError(f"{request.where}: {told}") from error
        told = without(request.secrets, str(error))
        raise SourceError(f"{request.where}: the answer is not what was expected: {told}") from error


def clock(server: Server, path: str, budget: Budget) -> datetime | None:
    """The other side's clock, to the second, by the Date header of an answer. Raises SourceError."""
    response = _Request(server, path, budget).send()
    response.close()
    try:
        return parsedate_to_datetime(response.headers.get("date", "")).astimezone(UTC)
    except (ValueError, TypeError):
        return None


class _Request:
    """One request, the tries of it and its answer's pieces."""

    def __init__(
        self,
        server: Server,
        path: str,
        budget: Budget,
        params: Params | None = None,
        json: object = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "",
        seconds: float | None = None,
        tries: int = TRIES,
    ) -> None:
        self._tries = tries
        self._server, self._budget = server, budget
        self._method = method or ("GET" if json is None and form is None else "POST")
        self.where = f"{server.url.rstrip('/')}{path}"
        self._sent = {"Accept-Encoding": "gzip", **server.credentials(), **(headers or {})}
        self.secrets = secrets_in(server, self._sent)
        self._params = dict(params) if params else None
        self._json, self._form = json, dict(form) if form else None
        self._began = time.monotonic()
        self._until = min(budget.deadline, self._began + (seconds or budget.seconds))

    def send(self) -> httpx2.Response:
        """The answer, of which only the headers were read. Raises SourceError."""
        try:
            client = wire.client(
                self._server.url,
                ca_file=self._server.ca_file,
                cert_file=self._server.cert_file,
                key_file=self._server.key_file,
                unix_socket=self._server.socket,
            )
        except OSError as error:
            raise SourceError(f"{self._server.url}: ca_file, cert_file or key_file cannot be used: {error}") from error
        for tried in range(1, self._tries + 1):
            self._budget.left()
            now = time.monotonic()
            try:
                address = wire.address(self.where)
                request = client.build_request(
                    self._method,
                    address,
                    extensions=wire.asking(address, self._params) if self._params else None,
                    json=self._json,
                    data=self._form,
                    headers=self._sent,
                    timeout=wire.timeouts(now, self._until, CONNECT_SECONDS),
                )
                response = client.send(request, stream=True, follow_redirects=False)
            except httpx2.PoolTimeout as error:
                raise BudgetSpent(
                    f"{self._server.url}: all {wire.MAX_CONNECTIONS} connections to it were in use for "
                    f"{time.monotonic() - self._began:.1f} s"
                ) from error
            except httpx2.TimeoutException as error:
                if isinstance(error, httpx2.ConnectTimeout) and tried < self._tries and self._left() > CONNECT_SECONDS:
                    continue
                raise Unreachable(self._not_in_time(error)) from error
            except httpx2.TransportError as error:
                if tried < self._tries and not _hopeless(error):
                    _pause(tried, self._left())
                    continue
                raise Unreachable(f"{self._server.url}: {self._why(error)}") from error
            except (httpx2.InvalidURL, UnicodeError) as error:
                raise SourceError(f"{self._server.url}: cannot be asked: {self._why(error)}") from error
            if response.status_code in RETRIED and tried < self._tries:
                after = response.headers.get("retry-after", "")
                response.close()
                _pause(tried, self._left(), f"{self.where}: HTTP {response.status_code}: asked to wait", after)
                continue
            if not response.is_success:
                raise self._refused(response)
            return response
        raise AssertionError("unreachable: the last try returns or raises")

    def pieces(self, response: httpx2.Response) -> Iterator[bytes]:
        """The body, unpacked, in pieces. Raises SourceError."""
        got, last = 0, time.monotonic()
        try:
            for piece in _unpacked(response):
                self._budget.take(len(piece))
                got, last = got + len(piece), time.monotonic()
                yield piece
                if last > self._until:
                    raise self._late(got)
        except httpx2.TimeoutException as error:
            silent = time.monotonic() - last
            if silent < min(1.0, (self._until - self._began) / 3):
                raise self._late(got) from error
            told = f"stopped answering in the middle of an answer: {got} bytes came, then nothing for {silent:.1f} s"
            raise Unreachable(f"{self.where}: {told}") from error
        except (httpx2.TransportError, EOFError) as error:
            raise CutOff(f"{self.where}: the answer was cut off after {got} bytes: {self._why(error)}") from error
        except zlib.error as error:
            raise SourceError(f"{self.where}: the packed answer is damaged after {got} bytes: {error}") from error

    def _left(self) -> float:
        return self._until - time.monotonic()

    def _late(self, got: int) -> SourceError:
        told = f"not finished within {_written(self._until - self._began)}: still sending after {got} bytes"
        kind = BudgetSpent if self._until >= self._budget.deadline else SourceError
        return kind(f"{self.where}: {told}")

    def _not_in_time(self, error: Exception) -> str:
        if isinstance(error, httpx2.ConnectTimeout):
            told = str(error) if "resolved" in str(error) else "could not be connected to"
            return f"{self._server.url}: {told} within {_written(min(CONNECT_SECONDS, self._until - self._began))}"
        return f"{self._server.url}: no answer within {_written(self._until - self._began)}"

    def _why(self, error: Exception) -> str:
        """A library's words, in ours where they are known."""
        certificate = _cause(error, ssl.SSLCertVerificationError)
        if isinstance(certificate, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({certificate.verify_message}): set server.ca_file"
        if _cause(error, ssl.SSLError):
            return f"no TLS with it: is it https at all? ({without(self.secrets, str(error))})"
        return without(self.secrets, str(error)) or type(error).__name__

    def _refused(self, response: httpx2.Response) -> Refused:
        """What a server said instead of an answer."""
        said = b""
        try:
            for piece in _unpacked(response):
                said += piece
                if len(said) >= MAX_ERROR or self._left() <= 0:
                    break
        except (httpx2.TransportError, EOFError, zlib.error, SourceError):
            said += b" (cut off)"
        finally:
            response.close()
        words = self.words(said[:MAX_ERROR])
        what = {
            401: "not let in: is the token right?",
            403: "not allowed",
            404: "not there: is the address right?",
            407: "a proxy asks who we are",
            413: "the question is too long for it",
            414: "the question is too long for it",
        }
        hint = what.get(response.status_code, "")
        if response.is_redirect:
            hint = f"it points to {response.headers.get('location', '')[:200]!r}; redirects are not followed"
        told = ": ".join(part for part in (without(self.secrets, hint), words) if part)
        kind = Overloaded if response.status_code in RETRIED else Refused
        message = f"{self.where}: HTTP {response.status_code}" + (f": {told}" if told else "")
        return kind(message, response.status_code, words)

    def words(self, said: bytes) -> str:
        """The words in the body of an error: of JSON its reason, of a page its text."""
        text = said.decode("utf-8", "replace")
        if text.lstrip()[:1] == "<":
            # A page has more than words: of what is drawn and run nothing is said.
            text = re.sub(r"(?is)<(script|style)\b.*?(?:</\1>|\Z)|<[^>]{0,2000}>", " ", text)
            text = html.unescape(text)
        elif text.lstrip()[:1] == "{":
            text = _reason(said) or text
        return without(self.secrets, " ".join(text.split()))[:SHOWN_ERROR]


def _reason(said: bytes) -> str:
    """Why, in the errors of Prometheus, Loki, VictoriaMetrics, Elasticsearch, Kubernetes, Slurm; "" in no such."""
    try:
        body = msgspec.json.decode(said)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    error = body.get("error", body)
    if isinstance(listed := body.get("errors"), list):
        each = [row for row in listed if isinstance(row, dict)]
        told = [row.get(key) for row in each for key in ("description", "error")]
        return ": ".join(dict.fromkeys(part for part in told if isinstance(part, str)))
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    roots = [root for root in error.get("root_cause") or () if isinstance(root, dict)]
    # Elasticsearch's own reason is often "all shards failed", with the cause under it.
    reasons = [error.get("reason"), error.get("message"), *(root.get("reason") for root in roots)]
    return ": ".join(dict.fromkeys(reason for reason in reasons if isinstance(reason, str)))


def _unpacked(response: httpx2.Response) -> Iterator[bytes]:
    """The body in pieces of bounded size. Raises EOFError where a packed one ends too early, zlib.error, SourceError.

    Only what was asked for is unpacked, and never more of it at once than a piece: a few bytes can stand for gigabytes.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in {"", "identity"}:
        yield from response.iter_raw()
        return
    if encoding not in {"gzip", "x-gzip"}:
        raise SourceError(f"{response.url.host}: the answer is packed with {encoding[:40]!r}, which was not asked for")
    unpack, began = zlib.decompressobj(31), False
    for piece in response.iter_raw():
        packed, began = piece, True
        while packed:
            if unpack.eof:
                unpack = zlib.decompressobj(31)
            yield unpack.decompress(packed, PIECE)
            packed = unpack.unconsumed_tail or unpack.unused_data
    yield unpack.flush()
    if began and not unpack.eof:
        raise EOFError("the packed data has no end")


def _cause(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """The error of a kind that led to this one."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, kind):
        seen = seen.__cause__ or seen.__context__
    return seen


def _hopeless(error: Exception) -> bool:
    """Whether another try can only end the same way."""
    wrong = isinstance(error, (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol))
    return wrong or _cause(error, ssl.SSLError) is not None


def _pause(tried: int, left: float, asked: str = "", after: str = "") -> None:
    """Wait before another try: as long as the server asks for, else longer each time, never beyond the budget."""
    wanted = _seconds(after) if after else None
    told = wanted is not None
    wanted = (wanted if wanted is not None else 0.1 * 2**tried) * (1 + random.random() / 2)
    if wanted >= left:
        if told:
            raise Unreachable(f"{asked} {wanted:.0f} s, longer than the {_written(left)} that are left")
        wanted = max(0.0, left / 2)
    time.sleep(wanted)


def _written(seconds: float) -> str:
    return f"{round(seconds, 1):g} s"


def _seconds(after: str) -> float | None:
    """A Retry-After: seconds, or a date; None where it is neither."""
    if re.fullmatch(r"[0-9]{1,9}", after.strip()):
        return float(after)
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
