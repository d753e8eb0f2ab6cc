"""Processes and their descriptors: lines over pipes, child processes and their ends, signals, private files.

Contract: no descriptor is closed under a thread that uses it, no signal goes to a stranger's process, and each wait
ends at its deadline. A line is written whole, or nothing follows it.

Door: `lines.LineTransport`, `child.Child`, `pipes.WakePipe` and `LineSplitter`, `standard_streams.StandardStreams`,
`running.end_by_sigterm`, `private_files.read_private` and `replace_private`.
"""
