"""OpenAPI descriptions of what the API takes, made from the engine's own types: one definition, no copy to drift."""

from typing import Any

import msgspec
from drf_spectacular.authentication import BasicScheme
from drf_spectacular.contrib.knox_auth_token import KnoxTokenScheme

from rules.attempt import Attempt, CollectorReport
from rules.observation import Observation


class TokenScheme(KnoxTokenScheme):
    """How the schema tells of the site's tokens."""

    target_class = "attribution_site.tokens.ApiToken"


class PasswordScheme(BasicScheme):
    """How it tells of name and password."""

    target_class = "attribution_site.login.LimitedBasic"


def plain_paths(result: dict[str, Any], generator: Any, **_: Any) -> dict[str, Any]:
    """The addresses as they are: a "+" in one is taken for a mark of a pattern, and left out, by what lists them."""
    plain = {path: f"/{route}" for path, route, *_ in generator.endpoints if not set("<(") & set(route)}
    result["paths"] = {plain.get(path, path): said for path, said in result["paths"].items()}
    return result


def _inlined(wanted: Any) -> dict[str, Any]:
    """The JSON Schema of a type with its references put in place."""
    schema = msgspec.json.schema(wanted)
    defined = schema.pop("$defs", {})
    return _resolve(schema, defined)


def _resolve(part: Any, defined: dict[str, Any]) -> Any:
    if isinstance(part, dict):
        if "$ref" in part:
            return _resolve(defined[part["$ref"].rpartition("/")[2]], defined)
        return {key: _resolve(value, defined) for key, value in part.items()}
    if isinstance(part, list):
        return [_resolve(item, defined) for item in part]
    return part


def _listed(name: str, wanted: Any, **more: Any) -> dict[str, Any]:
    """An object with one required list."""
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": _inlined(wanted)}, **more},
        "required": [name],
        "additionalProperties": False,
    }


ATTEMPT = _inlined(Attempt)
OBSERVATIONS = _listed("observations", Observation, key={"type": "string", "maxLength": 255})
REPORTS = _listed("reports", CollectorReport)
