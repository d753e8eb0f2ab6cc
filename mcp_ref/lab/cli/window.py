"""`mcp-ref window -- python server.py`: a host with a page in the browser, until Ctrl-C.

Not here:  the host, its page and what may pass (lab/window/window)
"""

from __future__ import annotations

import argparse
import threading
import webbrowser
from pathlib import Path

from mcp_ref import Command, Entry, Url
from mcp_ref.facts import end_by_sigterm, read_entries
from mcp_ref.lab.cli.commands import Exit, UsageError
from mcp_ref.lab.window.window import Window


def window(args: argparse.Namespace) -> Exit:
    """Run the command: print the address of the page, and open it. Blocks: until Ctrl-C, or SIGTERM."""
    try:
        entries = list(read_entries(args.config).values()) if args.config else []
    except (OSError, ValueError) as problem:
        raise UsageError(str(problem)) from None
    typed = []
    if args.target and args.target[0].startswith(("http://", "https://")):
        typed = [Entry("server", Url(args.target[0]))]
    elif args.target:
        words = [word for word in args.target if word.endswith(".py")] or args.target
        typed = [Entry(Path(words[0]).stem or "server", Command(args.target))]
    if not entries and not typed:
        raise UsageError("which server? Write it after --, as in: mcp-ref window -- python weather.py")
    try:
        made = Window([*entries, *typed], [each.name for each in typed], args.port)
    except OSError as problem:
        raise UsageError(f"cannot listen at port {args.port}: {problem}") from None
    try:
        made.start()
        print(made.address, flush=True)
        if not args.no_browser:
            webbrowser.open(made.address)
        with end_by_sigterm() as interrupted:
            interrupted(threading.Event().wait)
    finally:
        made.close()
    return Exit.OK
