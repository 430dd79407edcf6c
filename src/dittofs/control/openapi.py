"""The OpenAPI document, made from the declarations of the endpoints."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from dittofs import __version__
from dittofs.control.endpoints import Endpoint, Problem, Right

REFERENCES = "#/components/schemas/{name}"

STREAM = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}

PROBLEMS = {
    400: "The query or body cannot be used.",
    401: "A token is needed, or the one given is none.",
    403: "The token may not do this.",
    404: "There is no such thing.",
    405: "The method is not allowed.",
    409: "It cannot be done now.",
    410: "The listing is over.",
    413: "The body is too long.",
    415: "The body is not JSON.",
    503: "A store cannot go on, or the change could not be stored.",
}


def document(endpoints: Sequence[Endpoint], prefix: str) -> dict[str, Any]:
    declared: list[Any] = [Problem]
    for one in endpoints:
        declared += ([] if one.is_stream else [one.answer]) + ([one.body] if one.body else [])
    _, components = msgspec.json.schema_components(declared, ref_template=REFERENCES)
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(_path(one.path), {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "DittoFS",
            "version": __version__,
            "description": "See and steer a DittoFS server: shares, clients, and above all its locks.",
        },
        "servers": [{"url": prefix}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _path(path: str) -> str:
    return re.sub(r":path}", "}", path)


def _operation(one: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "parameters": [*_path_parameters(one), *_query_parameters(one)],
        "responses": _responses(one),
        "security": [] if one.right is Right.NONE else [{"token": []}],
    }
    if one.body is not None:
        operation["requestBody"] = {"required": True, "content": _json({"$ref": _reference(one.body)})}
    return operation


def _responses(one: Endpoint) -> dict[str, Any]:
    statuses = {*one.statuses, 400, 405}
    if one.right is not Right.NONE:
        statuses |= {401, 403}
    if one.body is not None:
        statuses |= {413, 415, 503}
    answer = STREAM if one.is_stream else _json({"$ref": _reference(one.answer)})
    found: dict[str, Any] = {"200": {"description": one.summary, "content": answer}}
    for status in sorted(statuses):
        found[str(status)] = {"description": PROBLEMS[status], "content": _json({"$ref": _reference(Problem)})}
    return found


def _path_parameters(one: Endpoint) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)(?::path)?}", one.path)
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in names
    ]


def _query_parameters(one: Endpoint) -> list[dict[str, Any]]:
    schema = msgspec.json.schema(one.query, ref_template=REFERENCES)
    declared = schema["$defs"][one.query.__name__] if "$defs" in schema else _only_definition(one)
    return [
        {"name": name, "in": "query", "required": name in declared.get("required", []), "schema": _without_null(part)}
        for name, part in declared.get("properties", {}).items()
    ]


def _only_definition(one: Endpoint) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([one.query], ref_template=REFERENCES)
    found: dict[str, Any] = components[one.query.__name__]
    return found


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is not given has no value: there is no null in a query."""
    choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
    return choices[0] if len(choices) == 1 else {key: value for key, value in schema.items() if value is not None}


def _reference(declared: Any) -> str:
    return REFERENCES.format(name=declared.__name__)


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
