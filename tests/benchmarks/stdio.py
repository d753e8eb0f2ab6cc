"""The cost of mcp_ref over stdio, beside a bare loop and the official SDK, all in one run.

    python -m tests.benchmarks.stdio                  a minute and a half
    python -m tests.benchmarks.stdio --calls 2000     a few seconds, and less certain

The machine decides how fast a pipe is, and other programs how busy it is: so each figure is taken in turns with those
that it is compared with, the best of a few rounds counts, and the marks are ratios. A mark is met or missed; a figure
without a mark is there to be read.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from tests.benchmarks import clients, starts
from tests.benchmarks.driver import WINDOW, Driven, Run

NAMES = ("bare", "our", "sdk")
ERAS = ("session", "stateless")


class Row(NamedTuple):
    """A line of the table: what each had, what is compared, and the mark that it is held to."""

    figure: str
    ours: str
    bare: str
    sdk: str
    ratio: str
    mark: str = ""
    met: bool | None = None


class Measured(NamedTuple):
    """The runs of one server."""

    one_by_one: Run
    in_flight: Run
    progress: Run


def measure(calls: int, rounds: int, era: str = "session") -> dict[str, Measured]:
    """Each server in turn, round by round; of each figure the best."""
    taken: dict[str, list[Measured]] = {name: [] for name in NAMES}
    for _ in range(rounds):
        for name in NAMES:
            count = max(20, calls // 10) if name == "sdk" else calls
            with Driven(name, era) as server:
                taken[name].append(
                    Measured(server.calls(count, 1), server.calls(count, WINDOW), server.notifications(1000))
                )
    return {name: Measured(*map(_best, zip(*runs, strict=True))) for name, runs in taken.items()}


def _best(runs: tuple[Run, ...]) -> Run:
    return Run(max(run.per_second for run in runs), min(run.cpu for run in runs))


def call_rows(measured: dict[str, Measured], era: str = "session") -> list[Row]:
    """Return what the calls and the notifications cost."""
    bare, ours, sdk = (measured[name] for name in NAMES)
    of = f", {era} era"
    return [
        _rate_row(f"calls/s, one after the other{of}", ours.one_by_one, bare.one_by_one, sdk.one_by_one, None),
        _beyond_row(f"CPU per call, one after the other{of}", ours.one_by_one, bare.one_by_one, sdk.one_by_one),
        _rate_row(f"calls/s, {WINDOW} in flight{of}", ours.in_flight, bare.in_flight, sdk.in_flight, 15),
        _beyond_row(f"CPU per call, {WINDOW} in flight{of}", ours.in_flight, bare.in_flight, sdk.in_flight),
        _rate_row(f"progress notifications/s{of}", ours.progress, bare.progress, sdk.progress, 15),
    ]


def _rate_row(figure: str, ours: Run, bare: Run, sdk: Run, mark: float | None) -> Row:
    ratio = ours.per_second / sdk.per_second
    rates = [f"{run.per_second:,.0f}" for run in (ours, bare, sdk)]
    if mark is None:
        return Row(figure, *rates, f"{ratio:.1f} x SDK")
    return Row(figure, *rates, f"{ratio:.1f} x SDK", f">= {mark:g}", ratio >= mark)


def _beyond_row(figure: str, ours: Run, bare: Run, sdk: Run) -> Row:
    ratio = (ours.cpu - bare.cpu) / (sdk.cpu - bare.cpu)
    used = [f"{run.cpu:.1f} us" for run in (ours, bare, sdk)]
    return Row(figure, *used, f"{ratio:.3f} of SDK's beyond bare", "<= 0.1", ratio <= 0.1)


def client_row(calls: int, rounds: int, mark: float, url: str | None = None) -> Row:
    """The two clients of the bare server, in turns."""
    ours, sdk = 0.0, 0.0
    for _ in range(rounds):
        ours, sdk = max(ours, clients.ours(calls, url)), max(sdk, clients.sdk(max(20, calls // 4), url))
    ratio = ours / sdk
    figure = "client: calls/s of the bare server"
    return Row(figure, f"{ours:,.0f}", "", f"{sdk:,.0f}", f"{ratio:.1f} x SDK", f">= {mark}", ratio >= mark)


def start_rows(rounds: int) -> list[Row]:
    """Return what a start takes."""
    imports, cold = starts.imports(rounds), starts.cold_starts(rounds, NAMES)
    added = {"wall": imports["our"].wall - imports["bare"].wall, "cpu": imports["our"].cpu - imports["bare"].cpu}
    ratio = cold["our"].wall / cold["bare"].wall
    return [
        *(
            Row(f"import mcp_ref, {kind}", f"{getattr(imports['our'], kind):.1f} ms",
                f"{getattr(imports['bare'], kind):.1f} ms", "", f"{more:.1f} ms more", "<= 60 ms", more <= 60)
            for kind, more in added.items()
        ),
        Row("cold start to initialize", *(f"{cold[name].wall:.1f} ms" for name in ("our", "bare", "sdk")),
            f"{ratio:.2f} x bare", "<= 3", ratio <= 3),
    ]  # fmt: skip


def table(rows: list[Row]) -> str:
    """The rows in columns, under a heading."""
    cells = [("figure", "ours", "bare", "SDK", "ratio", "mark", "")]
    cells += [(*row[:6], "" if row.met is None else "met" if row.met else "MISSED") for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Measure everything, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stdio", description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000, help="of each server in each round; the SDK gets a tenth")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--starts", type=int, default=15, help="of each kind, for the medians")
    chosen = parser.parse_args(arguments)
    rows = [row for era in ERAS for row in call_rows(measure(chosen.calls, chosen.rounds, era), era)]
    rows.append(client_row(max(20, chosen.calls // 4), chosen.rounds, 1.8))
    rows += start_rows(chosen.starts)
    print(table(rows))
    return rows


if __name__ == "__main__":
    main()
