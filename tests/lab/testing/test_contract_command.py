"""The command `contract`: its exit codes, and targets and files that are wrong."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mcp_ref import Server
from mcp_ref.lab.cli import main
from mcp_ref.lab.testing.contract import write_contract
from mcp_ref.lab.testing.verdict import Traffic
from tests.lab.conftest import At
from tests.slow import slow_but


def by_city(city: str) -> str:
    return city


def by_days(city: str, days: int) -> str:
    return city


def travel(forecast: Callable[..., str] = by_city, about: str = "tells") -> Server:
    server = Server("travel")
    server.tool(name="forecast", description=about)(forecast)
    return server


@pytest.fixture
def saved(at: At, tmp_path: Path) -> Path:
    """The contract of the server."""
    file = tmp_path / "travel.json"
    assert main(["contract", "save", str(file), *at(travel())]) == 0
    return file


def test_a_server_that_has_not_changed_keeps_its_contract(
    saved: Path, at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["contract", "diff", "--strict", str(saved), *at(travel())]) == 0
    assert capsys.readouterr().out == "0 breaking, 0 look, 0 harmless\n"
    assert [path.name for path in saved.parent.iterdir()] == ["travel.json"]


def test_a_break_exits_with_3(saved: Path, at: At, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "diff", str(saved), *at(travel(by_days))]) == 3
    told = capsys.readouterr().out
    assert told.startswith("breaking: tools/forecast input.days: is required now\n")


DECLARES = """
import json, sys
def say(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
about = {"name": "x", "version": "1"}
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "initialize":
        asked = m["params"]["protocolVersion"]
        spoken = asked if asked in sys.argv[1:] else sys.argv[-1]
        capabilities = {} if spoken == "2025-11-25" else {"logging": {}}
        say(m["id"], {"protocolVersion": spoken, "capabilities": capabilities, "serverInfo": about})
    elif "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
"""


def test_a_server_is_asked_in_a_revision_that_the_contract_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a newer one it declares other things, which breaks nobody."""
    file, declares = str(tmp_path / "a.json"), ["--", sys.executable, "-c", DECLARES]
    assert main(["contract", "save", file, *declares, "2025-06-18"]) == 0
    assert main(["contract", "diff", file, *declares, "2025-06-18", "2025-11-25"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "harmless: revisions/2025-11-25: is spoken now"
    assert main(["contract", "diff", file, *declares, "2025-11-25"]) == 3
    assert "breaking: revisions/2025-06-18: is no longer spoken" in capsys.readouterr().out


def test_a_look_fails_with_strict_alone(saved: Path, at: At) -> None:
    other = saved.with_name("other.json")
    assert main(["contract", "save", str(other), *at(travel(about="asks"))]) == 0
    assert main(["contract", "diff", str(saved), str(other)]) == 0
    assert main(["contract", "diff", "--strict", str(saved), str(other)]) == 3


@pytest.mark.parametrize("form", ["json", "junit", "sarif", "markdown"])
def test_every_format_tells_the_break(form: str, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = saved.with_name("other.json")
    other.write_text(json.dumps(json.loads(saved.read_text()) | {"tools": {}}))
    assert main(["contract", "diff", "--format", form, str(saved), str(other)]) == 3
    told = capsys.readouterr().out
    assert "tools/forecast" in told
    assert "was removed" in told
    if form == "junit":
        assert ElementTree.fromstring(told)[0].get("failures") == "1"
    elif form == "sarif":
        assert [each["level"] for each in json.loads(told)["runs"][0]["results"]] == ["error"]


@pytest.mark.parametrize("form", ["json", "junit", "sarif", "markdown"])
def test_a_kept_contract_is_a_row_that_passes(form: str, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "diff", "--format", form, str(saved), str(saved)]) == 0
    assert "nothing was judged" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"contract": 9}', "it is a contract of version 9, and this program reads version 1"),
        (b"{", "Expecting property name"),
        (b"\xff", "can't decode"),
        (b"[" * 1_000_000, "nested too deeply"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_no_contract_exits_with_2(
    text: bytes | None, why: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = saved.with_name("other.json")
    if text is not None:
        other.write_bytes(text)
    for pair in ((saved, other), (other, saved)):
        assert main(["contract", "diff", *map(str, pair)]) == 2
        told = capsys.readouterr().err
        assert why in told
        assert "other.json" in told
        assert told.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["save", "a.json", "b.json"], ["save", "a.json"], ["diff", "a.json"], ["diff", "a", "b", "--", "c"]]
)
def test_words_that_do_not_fit_exit_with_2(words: list[str]) -> None:
    assert main(["contract", *words]) == 2


def test_a_file_that_cannot_be_written_exits_with_2(at: At, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "save", str(tmp_path / "no" / "a.json"), *at(travel())]) == 2
    assert "cannot write the contract" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_what_is_no_plain_file_is_not_replaced(
    kind: str, at: At, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, victim = tmp_path / "a.json", tmp_path / "victim"
    victim.write_text("precious")
    make: dict[str, Callable[[], None]] = {
        "link": lambda: path.symlink_to(victim), "dangling link": lambda: path.symlink_to(tmp_path / "none"),
        "pipe": lambda: os.mkfifo(path), "folder": path.mkdir,
    }  # fmt: skip
    make[kind]()
    before = os.lstat(path)
    assert main(["contract", "save", str(path), *at(travel())]) == 2
    assert "a.json is not a plain file, and stays as it is" in capsys.readouterr().err
    with pytest.raises(PermissionError):
        Traffic().save(path)
    assert os.lstat(path).st_ino == before.st_ino and victim.read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == len({path, victim})


def test_a_contract_is_written_as_others_may_read_it_and_a_trace_is_not(tmp_path: Path) -> None:
    os.umask(mask := os.umask(0))
    write_contract(tmp_path / "a.json", {})
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o666 & ~mask
    Traffic().save(tmp_path / "new" / "trace.jsonl")
    assert stat.S_IMODE((tmp_path / "new" / "trace.jsonl").stat().st_mode) == 0o600


TARGETS = {
    "hangs": "sys.stdin.read()",
    "dies": "sys.stdin.readline(); os._exit(7)",
    "prints garbage": "print('{]', flush=True); sys.stdin.read()",
    "answers with another message": 'print(\'{"jsonrpc": "2.0", "id": 1}\', flush=True); sys.stdin.read()',
    "floods": "while True: sys.stdout.write('x' * 65536)",
}


@pytest.mark.parametrize("does", slow_but(["hangs", "dies"], TARGETS))
def test_a_target_that_cannot_be_asked_exits_with_4(
    does: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = tmp_path / "pid"
    program = f"import os, sys\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\n{TARGETS[does]}"
    file = tmp_path / "a.json"
    assert main(["contract", "save", "--timeout", "1", str(file), "--", sys.executable, "-c", program]) == 4
    assert capsys.readouterr().err.count("mcp-ref: cannot make a contract: ") == 1
    assert not file.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_target_that_does_not_start_exits_with_4(tmp_path: Path) -> None:
    assert main(["contract", "save", str(tmp_path / "a.json"), "--", str(tmp_path / "missing")]) == 4
