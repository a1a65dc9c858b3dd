"""web.py - what the tests of the HTTP door share: a client that shows everything, and raw bytes."""

import http.client
import json
import socket

import tallyd

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}


class Answer:
    """Status, headers with small names, and the body as bytes."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def lines(self):
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def problem(self):
        """The last word of a problem's type."""
        assert self.headers["content-type"] == "application/problem+json", self.headers
        assert self.json["status"] == self.status
        return self.json["type"].rsplit("/", 1)[1]


class Web:
    """A connection of Python's http.client that is kept open."""

    def __init__(self, port, password=None, host="127.0.0.1"):
        self.connection = http.client.HTTPConnection(host, port, timeout=20)
        self.password = password

    def close(self):
        self.connection.close()

    def ask(self, method, path, body=None, headers=None):
        """`body`: bytes as they are, anything else as JSON."""
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        if self.password:
            sent.setdefault("Authorization", f"Bearer {self.password}")
        self.connection.request(method, path, body=body, headers=sent)
        answer = self.connection.getresponse()
        return Answer(answer.status, answer.getheaders(), answer.read())

    def get(self, path, **headers):
        return self.ask("GET", path, headers=headers)

    def post(self, path, body=None, headers=None):
        return self.ask("POST", path, body, headers)

    def put(self, path, body=None, headers=None):
        return self.ask("PUT", path, body, headers)

    def delete(self, path, headers=None):
        return self.ask("DELETE", path, headers=headers)

    def batch(self, lines, headers=None):
        """Lines that are bytes go as they are."""
        body = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode()
                          for line in lines)
        return self.ask("POST", "/v1/batch", body, {**LINES, **(headers or {})})


class Raw(tallyd.Wire):
    """Bytes as somebody might send them who does not mean well."""

    send = tallyd.Wire.send_bytes

    def read(self):
        """One answer; None at the end of the connection."""
        line = self.stream.readline()
        if not line:
            return None
        status = int(line.split()[1])
        headers = []
        while (line := self.stream.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers.append((name, value.strip()))
        answer = Answer(status, headers, b"")
        size = int(answer.headers.get("content-length", "0"))
        answer.body = self.stream.read(size)
        return answer

    def is_closed(self):
        try:
            return self.stream.read(1) == b""
        except ConnectionError:
            return True
        except socket.timeout:
            return False
