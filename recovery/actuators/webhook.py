"""Any other scheduler, by a program of the site's that speaks a small HTTP protocol; docs/recovery.md describes it.

`POST url` asks for one step, `GET url?mark=…&job_id=…` says what is there. Both are signed as Standard Webhooks: what
answers must know the secret, and so must we be known. The address comes from the settings, redirects are not followed,
no proxy of the environment is used. The receiver answers for exactly one effect by the `idempotency-key`: the mark and
the step.
"""

import base64
import binascii
import logging
import os
import ssl
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlencode

import httpx2
import msgspec

from recovery.actuators.base import (
    Actuator,
    ActuatorSettings,
    Aim,
    Look,
    MaybeApplied,
    NotApplied,
    Refused,
    Unseen,
)
from recovery.words import ActionKind
from verdicts.webhook import signature
from verdicts.webhook_send import asking

log = logging.getLogger(__name__)

#: An answer is short.
MOST_BYTES, SHOWN = 1 << 20, 300
LEAST_SECRET = 24
#: A step of an action and what takes it back, in the protocol's words.
STEPS = {
    ActionKind.RESTART: ("restart",),
    ActionKind.RESTART_EXCLUDING: ("hold", "exclude", "restart"),
    ActionKind.STOP: ("stop",),
    ActionKind.HOLD: ("hold",),
    ActionKind.DRAIN: ("drain",),
    ActionKind.UNDRAIN: ("undrain",),
    ActionKind.LIFT_EXCLUSION: ("include", "undrain"),
}
UNDO = {
    ActionKind.RESTART_EXCLUDING: ("include", "release"),
    ActionKind.HOLD: ("release",),
    ActionKind.DRAIN: ("undrain",),
}
_KNOWN = frozenset(step for steps in (*STEPS.values(), *UNDO.values()) for step in steps)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What the receiver says is there. `done` are the steps whose effect is there, `lost` why what is wanted cannot
    be reached any more; `settled` is false while the scheduler is still at something.
    """

    done: list[str]
    settled: bool = True
    lost: str = ""
    held: bool = False
    said: str = ""
    facts: dict[str, Any] = {}


class Webhook(Actuator):
    """One receiver."""

    kind: ClassVar[str] = "webhook"

    def __init__(
        self, url: str, secret: bytes, *, can: frozenset[ActionKind], settle: float, deadline: float, ca_file: str = ""
    ) -> None:
        super().__init__(can=can & STEPS.keys(), settle=settle, deadline=deadline)
        self._url, self._secret, self._ca_file = url, secret, ca_file
        if ca_file:
            ssl.create_default_context(cafile=ca_file)  # what cannot be used is said at the start

    def steps(self, action: ActionKind) -> tuple[str, ...]:
        return STEPS[action]

    def undo(self, action: ActionKind) -> tuple[str, ...]:
        return UNDO.get(action, ())

    def look(self, aim: Aim) -> Look:
        query = urlencode({name: value for name, value in _plan(aim).items() if isinstance(value, str) and value})
        try:
            status, body = self._ask("GET", f"{self._url}?{query}", self._headers(query.encode()))
        except httpx2.HTTPError as error:
            raise Unseen(f"the receiver: {type(error).__name__}: {str(error)[:SHOWN]}") from error
        if status == 404:
            return Look(done=frozenset({"release", "include"}), lost="the receiver knows no such job")
        if not 200 <= status < 300:
            raise Unseen(f"the receiver answered {status}: {_words(body)}")
        try:
            state = msgspec.json.decode(body, type=State)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
            raise Unseen(f"the receiver's answer cannot be read: {error}") from error
        return Look(
            done=frozenset(state.done) & _KNOWN,
            settled=state.settled,
            lost=state.lost[:SHOWN],
            held=state.held,
            said=state.said[:SHOWN],
            facts=state.facts,
        )

    def do(self, step: str, aim: Aim, seen: Look) -> None:
        body = msgspec.json.encode({"type": "recovery.step", "step": step, **_plan(aim)})
        headers = self._headers(body, f"{aim.mark}.{step}") | {"Content-Type": "application/json"}
        try:
            status, said = self._ask("POST", self._url, headers, content=body, most=SHOWN)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise NotApplied(f"the receiver: {type(error).__name__}: {str(error)[:SHOWN]}") from error
        except httpx2.HTTPError as error:
            raise MaybeApplied(f"the receiver: {type(error).__name__}: {str(error)[:SHOWN]}") from error
        if 200 <= status < 300:
            return
        why = f"the receiver answered {status}: {_words(said)}"
        if status in (425, 429, 503):
            raise NotApplied(why)
        # A server's fault, or a gateway before it: what came of the call is not known.
        if status >= 500 or status < 400:
            raise MaybeApplied(why)
        raise Refused(why)

    def probe(self) -> str:
        try:
            status, body = self._ask("GET", self._url, self._headers(b""))
        except httpx2.HTTPError as error:
            raise Unseen(f"the receiver: {type(error).__name__}: {str(error)[:SHOWN]}") from error
        if status in (401, 403) or status >= 500:
            raise Unseen(f"the receiver answered {status}: {_words(body)}")
        return "the receiver answers"

    def _ask(
        self, method: str, url: str, headers: dict[str, str], *, content: bytes | None = None, most: int = MOST_BYTES
    ) -> tuple[int, bytes]:
        """The status, and so much of the body. Raises httpx2.HTTPError.

        A body that does not come whole is cut off there: of a step's answer only the status counts.
        """
        with asking(method, url, headers, ca_file=self._ca_file, content=content) as answer:
            body = b""
            try:
                for piece in answer.iter_raw():
                    body += piece
                    if len(body) >= most:
                        break
            except httpx2.HTTPError as error:
                log.warning("the receiver's answer ended early: %s", type(error).__name__)
            return answer.status_code, body[:most]

    def _headers(self, signed: bytes, key: str = "") -> dict[str, str]:
        """The signature of Standard Webhooks over the body, or over the query where there is none."""
        name, now = uuid.uuid4(), int(datetime.now(UTC).timestamp())
        headers = {
            "Accept": "application/json",
            "webhook-id": str(name),
            "webhook-timestamp": str(now),
            "webhook-signature": signature(self._secret, name, now, signed),
        }
        return headers | ({"idempotency-key": key} if key else {})


def _plan(aim: Aim) -> dict[str, Any]:
    """What the receiver is told of a plan."""
    return {
        "mark": aim.mark,
        "action": aim.action.value,
        "job_id": aim.job_id,
        "submit_time": aim.submitted.isoformat() if aim.submitted else "",
        "restart_count": str(aim.restart_count),
        "begun": "true" if aim.begun else "false",
        "nodes": ",".join(aim.nodes),
        "undoes": ",".join(sorted(aim.undoes)),
        "reason": aim.reason,
    }


def _words(body: bytes) -> str:
    return " ".join(body[: 4 * SHOWN].decode("utf-8", "replace")[:SHOWN].split())


class WebhookSettings(ActuatorSettings, tag="webhook", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A receiver of the site's. The secret is `whsec_` and base64, in a file or in an environment variable."""

    url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")]
    secret_file: str = ""
    secret_env: str = ""
    ca_file: str = ""

    def check(self) -> None:
        if bool(self.secret_file) == bool(self.secret_env):
            raise ValueError("secret_file, secret_env: give one of them")
        if self.ca_file and not os.access(self.ca_file, os.R_OK):
            raise ValueError(f"ca_file: {self.ca_file} cannot be read")
        self._secret()

    def _secret(self) -> bytes:
        """The secret. Raises ValueError naming the key, and never with what it holds."""
        key = "secret_file" if self.secret_file else "secret_env"
        try:
            text = Path(self.secret_file).read_text(encoding="utf-8") if self.secret_file else ""
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"secret_file: {self.secret_file} cannot be read") from error
        text = (text or os.environ.get(self.secret_env, "")).strip()
        try:
            secret = base64.b64decode(text.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise ValueError(f"{key}: whsec_ and base64") from None
        if len(secret) < LEAST_SECRET:
            raise ValueError(f"{key}: {LEAST_SECRET} random bytes or more, as base64")
        return secret

    def actuator(self) -> Actuator:
        return Webhook(
            self.url,
            self._secret(),
            can=self.may,
            settle=self.settle,
            deadline=self.deadline,
            ca_file=self.ca_file,
        )
