"""Checks of our own: a request that the document allows is refused only for what it cannot say."""

import json

import schemathesis

# Rules of a table (CHECK, foreign keys, triggers) are not in the catalogue's types.
RULES = {"CHECK_FAILED", "REFERENCE_NOT_FOUND", "IDEMPOTENCY_KEY_REUSED", "MUTATION_ID_REUSED"}
# Cursors and entity tags are opaque: no pattern makes a right one.
OPAQUE = {"INVALID_CURSOR", "INVALID_IF_MATCH", "INVALID_IDEMPOTENCY_KEY"}
# Parameters of a list that are no filters, and whose patterns are therefore the whole rule.
NO_FILTERS = {"select", "order", "limit"}


@schemathesis.hook.apply_to(method="DELETE")
def map_query(ctx, query):
    """A dry run answers as the deletion would; use_after_free would take it for one."""
    return {name: value for name, value in (query or {}).items() if name != "dry_run"}


@schemathesis.check
def refused_for_a_reason(ctx, response, case):
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code not in (400, 422):
        return
    try:
        error = response.json()["error"]
    except ValueError:
        return  # HEAD
    code, details = error["code"], error["details"]
    if code in RULES or code in OPAQUE:
        return
    if "the character NUL" in error["message"]:
        return  # the schema of any JSON has no pattern for the texts in it
    if code == "INVALID_QUERY" and {"select", "version"} <= set(case.query or {}):
        return  # one of them at a time, which OpenAPI has no words for
    if code == "INVALID_QUERY" and details.get("field") not in NO_FILTERS:
        return  # what a pattern takes for a value, an expression or a search, PostgreSQL may not
    if code in ("INVALID_VALUE", "UNKNOWN_FIELD", "MISSING_FIELD") and excused(case, details):
        return
    raise AssertionError(f"{code}: {error['message']}")


def excused(case, details):
    """Whether the body's schema could not have told that this value is refused."""
    if case.media_type == "application/json-patch+json":
        return True  # what a patch makes of the record depends on the record
    if case.path.endswith("/increment"):
        return details.get("field") != "field"  # the sum may be too large
    field = details.get("field")
    if case.path.endswith("/sync/push") and field in ("ack_through", "base_mutation", "base_version"):
        return True  # it depends on what was pushed before, and on the other parts of the mutation
    if field in key_fields(case):
        return True  # it differs from the id in the address
    body = case.body if isinstance(case.body, dict) else {}
    within = body.get("data") if case.path.endswith("/merge") else None
    value = (within if isinstance(within, dict) else body).get(field)
    # An array that is ragged, JSON with a NUL somewhere inside, or the text of a type that has no
    # rules in JSON Schema, such as a range.
    return isinstance(value, list | dict) or "\\u0000" in json.dumps(value) or loose(case, field)


def key_fields(case):
    """The fields that the description of the path's parameter names."""
    for parameter in case.operation.path_parameters:
        return parameter.definition.get("description", "").split("`")[1::2]
    return []


def loose(case, field):
    """Whether the field is of a type that goes as PostgreSQL's text, which says so in `format`."""
    schemas = case.operation.schema.raw_schema["components"]["schemas"]
    described = [s["properties"][field] for s in schemas.values() if field in s.get("properties", {})]
    return any("as PostgreSQL writes it" in s.get("description", "") for s in described)
