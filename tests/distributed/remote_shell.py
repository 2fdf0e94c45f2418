"""A remote shell for the hosts of a testbed, in the place of ssh: it is there, without keys, for as long as the host.

A host cannot reach into another one's processes, so a launcher asks over the network, as it would on real machines.
The client sends one line, the command as JSON. The server answers with lines of JSON: pieces of output, then the
exit code. Standard output and standard error come back as one.
"""

import base64
import json
import os
import socket
import socketserver
import subprocess
import sys
from collections.abc import Sequence

PORT = 22
# What a login gives, and TMPDIR, which is the host's: nothing of the environment the launcher was started in.
LOGIN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "USER": "root"}


class _Session(socketserver.StreamRequestHandler):
    """One command, from its line to its exit code."""

    def handle(self) -> None:
        process = subprocess.Popen(
            ["/bin/sh", "-c", json.loads(self.rfile.readline())],
            env={**LOGIN, "TMPDIR": os.environ["TMPDIR"]},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            while piece := os.read(process.stdout.fileno(), 1 << 16):
                self._answer(base64.b64encode(piece).decode())
            self._answer(process.wait())
        except OSError:  # the client has gone; its command goes on, as under sshd
            process.wait()

    def _answer(self, value: str | int) -> None:
        self.wfile.write(json.dumps(value).encode() + b"\n")


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def serve() -> None:
    """Runs what is asked for until the host dies. Says a line when it is ready."""
    with _Server(("", PORT), _Session) as server:
        print("ready", flush=True)
        server.serve_forever()


def call(host: str, command: str) -> int:
    """Runs a command on a host, shows its output and returns its exit code."""
    with socket.create_connection((host, PORT)) as connection, connection.makefile("rwb") as stream:
        stream.write(json.dumps(command).encode() + b"\n")
        stream.flush()
        for line in stream:
            answer = json.loads(line)
            if isinstance(answer, int):
                return answer if answer >= 0 else 128 - answer
            sys.stdout.buffer.write(base64.b64decode(answer))
            sys.stdout.buffer.flush()
    return 255  # as ssh, when the connection broke


def main(arguments: Sequence[str]) -> int:
    """`ssh`'s way to be called: options, which are not needed here, a host, and the words of a command."""
    words = list(arguments)
    if words == ["--serve"]:
        serve()
    while words[0].startswith("-"):
        words.pop(0)
    try:
        return call(words[0], " ".join(words[1:]))
    except OSError as error:
        print(f"{words[0]}: {error}", file=sys.stderr)
        return 255


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
