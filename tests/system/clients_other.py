"""clients_other.py - programs that use hiredis and ioredis, each counting and liking for real."""

import os
import subprocess

import tallyd

CLIENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")


class OtherClients(tallyd.Case):
    def run_client(self, *command):
        server = self.server("--workers", "2")
        result = subprocess.run([*command, str(server.port)], capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_hiredis(self):
        program = os.environ.get("HIREDIS_CLIENT")
        self.need(program, "HIREDIS_CLIENT does not name the client; was hiredis there at build?")
        self.assertIn("RESP2 is fine", self.run_client(program))

    def test_ioredis(self):
        self.need_command("node")
        self.need(os.path.exists(os.path.join(CLIENTS, "node_modules", "ioredis")),
                  "ioredis is not installed, see tools/setup.sh test")
        said = self.run_client("node", os.path.join(CLIENTS, "ioredis_client.js"))
        self.assertIn("subscribe is fine", said)


if __name__ == "__main__":
    tallyd.main()
