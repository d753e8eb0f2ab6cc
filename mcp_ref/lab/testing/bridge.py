"""Bridge: what a client starts as its server; it carries both pipes to a port of this machine, where the probe answers.

Run as a script, so that it starts at once: bridge.py PORT TOKEN [watched | stubborn]. How the client ends it is told
behind the last message, by a line that begins with NUL; a stubborn one ends neither with its input nor by SIGTERM. Of
two that come at once, chance says which is seen first: one that is watched, or stubborn, tells SIGTERM first then.
"""

import os
import signal
import socket
import sys
import threading

_AT_ONCE = 0.5  # seconds from the end of the input to a SIGTERM that has not waited for it


def main(port: int, token: str, watched: bool, stubborn: bool) -> None:
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.sendall(token.encode() + b"\n")

        terminated = threading.Event()

        def up() -> None:
            while data := os.read(0, 65536):
                link.sendall(data)
            if watched or stubborn:
                terminated.wait(_AT_ONCE)
            link.sendall(b"\n\0eof\n")
            if not stubborn:
                link.shutdown(socket.SHUT_WR)

        def asked_to_end(number: int, frame: object) -> None:
            link.sendall(b"\n\0term\n")
            terminated.set()
            if not stubborn:
                os._exit(143)

        signal.signal(signal.SIGTERM, asked_to_end)
        threading.Thread(target=up, name="bridge-up", daemon=True).start()
        while data := link.recv(65536):
            os.write(1, data)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], "watched" in sys.argv, "stubborn" in sys.argv)
