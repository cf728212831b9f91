"""Any other scheduler, by a program of the site's that speaks a small HTTP protocol; docs/recovery.md describes it.

`POST url` asks for one step, `GET url?mark=…&job_id=…` says what is there. Both are signed as Standard Webhooks: what
answers must know the secret, and so must we be known. The address comes from the settings, redirects are not followed,
no proxy of the environment is used. The receiver answers for exactly one effect by the `idempotency-key`: the mark and
the step.
"""

import base64
import binascii
import os
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

#: One request, whole. An answer is short.
SECONDS, MOST_BYTES, SHOWN = 20.0, 1 << 20, 300
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
        self._url, self._secret = url, secret
        self._verify: Any = httpx2.create_ssl_context(verify=ca_file, trust_env=False) if ca_file else True

    def steps(self, action: ActionKind) -> tuple[str, ...]:
        return STEPS[action]

    def undo(self, action: ActionKind) -> tuple[str, ...]:
        return UNDO.get(action, ())

    def look(self, aim: Aim) -> Look:
        query = urlencode({name: value for name, value in _plan(aim).items() if isinstance(value, str) and value})
        try:
            with self._client() as client:
                answer = client.get(f"{self._url}?{query}", headers=self._headers(query.encode()))
        except httpx2.HTTPError as error:
            raise Unseen(f"the receiver: {type(error).__name__}: {str(error)[:SHOWN]}") from error
        if answer.status_code == 404:
            return Look(done=frozenset({"release", "include"}), lost="the receiver knows no such job")
        if not answer.is_success:
            raise Unseen(f"the receiver answered {answer.status_code}: {_words(answer)}")
        try:
            state = msgspec.json.decode(answer.content[:MOST_BYTES], type=State)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
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
            with self._client() as client:
                answer = client.post(self._url, content=body, headers=headers)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise NotApplied(f"the receiver: {type(error).__name__}: {str(error)[:SHOWN]}") from error
        except httpx2.HTTPError as error:
            raise MaybeApplied(f"the receiver: {type(error).__name__}: {str(error)[:SHOWN]}") from error
        if answer.is_success:
            return
        said = f"the receiver answered {answer.status_code}: {_words(answer)}"
        if answer.status_code in (425, 429, 503):
            raise NotApplied(said)
        # A server's fault, or a gateway before it: what came of the call is not known.
        if answer.status_code >= 500 or answer.is_redirect:
            raise MaybeApplied(said)
        raise Refused(said)

    def probe(self) -> str:
        try:
            with self._client() as client:
                answer = client.get(self._url, headers=self._headers(b""))
        except httpx2.HTTPError as error:
            raise Unseen(f"the receiver: {type(error).__name__}: {str(error)[:SHOWN]}") from error
        if answer.status_code in (401, 403) or answer.status_code >= 500:
            raise Unseen(f"the receiver answered {answer.status_code}: {_words(answer)}")
        return "the receiver answers"

    def _client(self) -> httpx2.Client:
        return httpx2.Client(timeout=SECONDS, follow_redirects=False, trust_env=False, verify=self._verify)

    def _headers(self, signed: bytes, key: str = "") -> dict[str, str]:
        """The signature of Standard Webhooks over the body, or over the query where there is none."""
        name, now = uuid.uuid4(), int(datetime.now(UTC).timestamp())
        headers = {
            "User-Agent": "Inquest",
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


def _words(answer: httpx2.Response) -> str:
    return " ".join(answer.text[:SHOWN].split())


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
