"""hooks.py - what schemathesis has to know of Tally that a schema cannot say.

Read by tests/system/http_schemathesis.py through SCHEMATHESIS_HOOKS."""

import json

import schemathesis

LINES = "application/x-ndjson"


@schemathesis.serializer(LINES)
def write_lines(_context, value):
    """A body of one line."""
    return value if isinstance(value, bytes) else json.dumps(value).encode()


@schemathesis.deserializer(LINES)
def read_lines(_context, response):
    """The answer to the first line: the schema is that of a line."""
    lines = response.content.splitlines()
    return json.loads(lines[0]) if lines else {"line": 1, "status": 200}


def texts_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from texts_of(name)
            yield from texts_of(member)
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from texts_of(member)


def fits(text):
    """Limits are bytes, and those of a schema are code points: texts that are within one and beyond
    the other are tried by other tests."""
    return text.isascii() or len(text.encode("utf-8", "surrogatepass")) <= 64


def has_exponent(value):
    """JSON Schema takes 1e22 for an integer, and Python writes large floats like that; Tally does
    not read exponents, which are no way to write counts."""
    if isinstance(value, float):
        return "e" in repr(value)
    if isinstance(value, dict):
        return any(has_exponent(member) for member in value.values())
    return isinstance(value, list) and any(has_exponent(member) for member in value)


@schemathesis.hook
def filter_case(_context, case):
    query = case.query or {}
    if "ids" in query and len(query) > 1:  # it stands alone, which no parameter can say
        return False
    if any(len(one) > 256 for one in str(query.get("ids", "")).split(",")):
        return False
    if (case.headers or {}).get("Idempotency-Key") == '""':  # quotes are no part of the key
        return False
    sent = (case.path_parameters, query, dict(case.headers or {}), case.body)
    return all(fits(text) for part in sent for text in texts_of(part)) and not has_exponent(case.body)
