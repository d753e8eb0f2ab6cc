"""Python without what Windows lacks, for processes that have this folder on PYTHONPATH: see tests/test_blind.py.

What the code uses under `sys.platform` alone stays: there the check of types for each system shows it.
"""

import os
import select
import signal
import socket
import sys

MISSING = {
    os: "fork forkpty getpgid get_blocking getuid killpg pidfd_open register_at_fork set_blocking setsid waitid",
    select: "epoll kqueue poll",
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGUSR1 SIGUSR2 pthread_kill pthread_sigmask",
    socket: "MSG_DONTWAIT SO_REUSEPORT recv_fds send_fds",  # and AF_UNIX, which `socketpair` falls back from there
}
for module, names in MISSING.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for name in ("grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None  # type: ignore[assignment]
