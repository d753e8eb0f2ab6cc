"""The pytest plugin: fixtures for a connected client, whose traffic is judged in each test.

Spec:      the whole: what a test's client and server say is held against every sentence that the checker knows
Not here:  what the fixtures are made of (lab/testing/verdict), recordings (lab/testing/replay), contracts
           (lab/testing/contract)

    mcp_client                    a client of the server that --mcp-server, the ini file, a marker or your fixture names
    findings, surprises           fail the test itself, in its call, with their text alone
    what is left behind           fails its teardown

pytest loads this module in every run, so it imports pytest and the standard library alone; everything else is loaded
by the first fixture that is used.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

if TYPE_CHECKING:
    from mcp_ref import Client
    from mcp_ref.lab.testing.contract import Change
    from mcp_ref.lab.testing.verdict import Answers, Login, Recorded, Traffic

_ARGUMENTS: Final = ("server", "revisions", "over", "allow", "judge", "timeout")
_MAX_NAME: Final = 120  # characters of a test's id that are in the name of its trace
_OVER: Final = ("memory", "http", "sse", "stdio")
_SETS: Final = ("eras", "session", "all")

_TRAFFIC: Final = pytest.StashKey["Traffic"]()
_ALLOWED: Final = pytest.StashKey[
    "set[str]"
]()  # entries of mcp_allow that allowed something; absent: nothing was judged


# -- options, markers and parameters ------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mcp", "Model Context Protocol")
    group.addoption("--mcp-server", metavar="TARGET", help="the server: a command, a URL, or module:object")
    group.addoption("--mcp-record", choices=["none", "once", "all"], default="none",
                    help="cassettes: only replay them; record those that are missing; record all again")  # fmt: skip
    group.addoption("--mcp-update", action="store_true", help="write the contracts again")
    group.addoption("--mcp-traces", metavar="DIR", help="write a trace of each test that fails, without secrets")
    group.addoption("--mcp-exact", action="store_true", help="hide nothing in those traces")
    parser.addini("mcp_server", "the server, unless --mcp-server names one", default="")
    parser.addini("mcp_timeout", "seconds for opening a connection, and for each call", default="10")
    parser.addini("mcp_allow", "what the checker may find: rules, or ids of sentences", type="linelist")
    parser.addini("mcp_revisions", "revisions to run each test in: a list, eras, session or all", type="args")
    parser.addini("mcp_over", "transports to run each test over: memory, http, sse, stdio", type="args")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"mcp({'=, '.join(_ARGUMENTS)}=): which server is met, and how")
    config.addinivalue_line("markers", "mcp_cassette(path): the server is the one recorded there, beside the test")


def _marked(node: Any) -> dict[str, Any]:
    """Return the arguments of the markers, of the nearest where several name one."""
    said: dict[str, Any] = {}
    for mark in node.iter_markers("mcp"):
        if mark.args or mark.kwargs.keys() - set(_ARGUMENTS):
            wrong = ", ".join([*map(repr, mark.args), *sorted(mark.kwargs.keys() - set(_ARGUMENTS))])
            _fail(f"the marker mcp takes {'=, '.join(_ARGUMENTS)}=, unlike {wrong}")
        said = {**mark.kwargs, **said}
    return said


def _several(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value)


def _fail(*lines: str) -> NoReturn:
    raise pytest.fail.Exception("\n".join(lines), pytrace=False) from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each pair of a revision and a transport."""
    said, _, config = _marked(metafunc.definition), _cassette(metafunc.definition), metafunc.config
    revisions = _several(said.get("revisions", config.getini("mcp_revisions")))
    over = _several(said.get("over", config.getini("mcp_over")))
    if "mcp_spoken" not in metafunc.fixturenames or not (revisions or over):
        return
    from mcp_ref import REVISIONS, SESSION_REVISIONS, STATELESS_REVISIONS

    newest = [SESSION_REVISIONS[-1].name, STATELESS_REVISIONS[-1].name]
    sets = dict(zip(_SETS, (newest, [each.name for each in SESSION_REVISIONS], list(REVISIONS)), strict=True))
    revisions = [name for each in revisions for name in sets.get(each, [each])]
    for value, known in [(each, (*REVISIONS, *_SETS)) for each in revisions] + [(each, _OVER) for each in over]:
        if value not in known:
            _fail(f"the marker mcp, or the ini file, names {value!r}; there are {', '.join(known)}")
    # HTTP+SSE is the transport of one revision, and Streamable HTTP that of the others.
    pairs = [
        (revision, way)
        for revision in revisions or [None]
        for way in over or [None]
        if revision is None or way not in ("http", "sse") or (REVISIONS[revision].http == "sse") == (way == "sse")
    ]
    if not pairs:
        _fail(f"none of {', '.join(revisions)} is spoken over {', '.join(over)}")
    metafunc.parametrize("mcp_spoken", pairs, indirect=True, ids=["-".join(filter(None, pair)) for pair in pairs])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--mcp-record") != "none":
        files = Counter(path for item in items if (path := _cassette(item)))
        if twice := sorted(str(path) for path, count in files.items() if count > 1):
            raise pytest.UsageError(f"--mcp-record: more than one test would write {', '.join(twice)}")


def _cassette(item: Any) -> Path | None:
    mark = item.get_closest_marker("mcp_cassette")
    if mark is not None and (len(mark.args) != 1 or mark.kwargs):
        _fail("the marker mcp_cassette takes the path of a recording, beside the test")
    return None if mark is None else item.path.parent / mark.args[0]


# -- what fails a test --------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    try:
        result = yield
    except Exception:
        # What the test did not foresee comes first: its own failure follows from it.
        if item.stash.get(_TRAFFIC, None) and (surprises := item.stash[_TRAFFIC].surprises()):
            _fail(*surprises)
        raise
    if traffic := item.stash.get(_TRAFFIC, None):
        left = traffic.answers.unasked() if traffic.answers else []
        if problems := traffic.surprises() + left + _findings(item):
            _fail(*problems)
        traffic.passed = True
    return result


def _findings(item: pytest.Item) -> list[str]:
    """Return the findings of a test until now, in words; those that the ini file allowed are noted."""
    found = item.stash[_TRAFFIC].findings
    item.config.stash.setdefault(_ALLOWED, set()).update(item.stash[_TRAFFIC].allowed)
    if not found or not _marked(item).get("judge", True):
        return []
    return [
        f"{len(found)} finding{'s' * (len(found) != 1)} in the MCP traffic of this test", *map(str, found),
        "to allow one: @pytest.mark.mcp(allow=[RULE]), or mcp_allow in the ini file",
    ]  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.excinfo is not None and (errors := sys.modules.get("mcp_ref.errors")) is not None:
        # Where our frames end in an error of ours, its text says all; --full-trace shows them.
        for module in [each for name, each in sys.modules.items() if name.startswith("mcp_ref.")]:
            vars(module)["__tracebackhide__"] = call.excinfo.errisinstance(errors.McpError)
    report = yield
    if report.failed and (traffic := item.stash.get(_TRAFFIC, None)) and traffic.events:
        report.sections.append(("MCP traffic", traffic.told()))
        if folder := item.config.getoption("--mcp-traces"):
            # The digest tells apart what is spelled alike here, and what was cut.
            name = re.sub(r"[^\w.-]+", "-", item.nodeid, flags=re.ASCII)[-_MAX_NAME:].strip("-")
            digest = hashlib.sha256(item.nodeid.encode("utf-8", "replace")).hexdigest()[:8]
            try:
                traffic.save(Path(folder, f"{name}-{digest}.jsonl"), exact=item.config.getoption("--mcp-exact"))
            except OSError as problem:
                report.sections.append(("MCP traffic", f"the trace cannot be written: {problem}"))
    return report


# -- what the ini file allows in vain, said at the end; under xdist the workers tell what they have seen ------------


def pytest_sessionfinish(session: pytest.Session) -> None:
    allowed = session.config.stash.get(_ALLOWED, None)
    if allowed is not None and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["mcp_allowed"] = sorted(allowed)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if (allowed := getattr(node, "workeroutput", {}).get("mcp_allowed")) is not None:
        node.config.stash.setdefault(_ALLOWED, set()).update(allowed)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if _ALLOWED in config.stash:
        for entry in config.getini("mcp_allow"):
            if entry not in config.stash[_ALLOWED]:
                terminalreporter.write_line(f"mcp_allow: {entry} has allowed nothing in this run")


# -- fixtures -----------------------------------------------------------------------------------------------------


@pytest.fixture
def mcp_spoken(request: pytest.FixtureRequest) -> tuple[str | None, str | None]:
    """Return the revision and the transport of this run of the test; None: whatever comes."""
    return getattr(request, "param", (None, None))


@pytest.fixture
def mcp_server(request: pytest.FixtureRequest) -> Any:
    """Return the server: of the marker, of --mcp-server, or of the ini file. Override it, in any scope, to make one."""
    named = _marked(request.node).get("server") or request.config.getoption("--mcp-server")
    named = named or request.config.getini("mcp_server")
    if not isinstance(named, str) or not named:
        return named or None
    from mcp_ref.lab.testing.verdict import Unreachable, target_of

    try:
        return target_of(named, request.config.rootpath)
    except Unreachable as problem:
        _fail(f"no MCP server: {problem}")


@pytest.fixture
def mcp_answers() -> Answers:
    """Return what the client answers to the server's questions; with it the client declares that it can be asked."""
    from mcp_ref.lab.testing.verdict import Answers

    return Answers()


@pytest.fixture
def mcp_traffic(request: pytest.FixtureRequest) -> Iterator[Traffic]:
    """Yield what is said in this test: `events`, `findings`, `narrate()`, `allow(rule)`."""
    from mcp_ref.lab.testing.verdict import Traffic

    allow = [*_marked(request.node).get("allow", ()), *request.config.getini("mcp_allow")]
    try:
        request.node.stash[_TRAFFIC] = traffic = Traffic(allow)
    except ValueError as problem:
        _fail(str(problem))
    if "mcp_answers" in request.fixturenames:
        traffic.answers = request.getfixturevalue("mcp_answers")
    yield traffic
    problems = traffic.close()
    if problems := problems + (_findings(request.node) if traffic.passed else []):
        _fail(*problems)
    for each in traffic.warnings:
        request.node.warn(pytest.PytestWarning(each))


@pytest.fixture
def mcp_connect(
    request: pytest.FixtureRequest, mcp_traffic: Traffic, mcp_server: Any, mcp_spoken: tuple[str | None, str | None]
) -> Iterator[Callable[..., Client]]:
    """Connects more clients: `mcp_connect(target=None, **options of Client)`; all are judged, and closed at the end."""
    from mcp_ref import Client
    from mcp_ref.lab.testing.replay import Replay
    from mcp_ref.lab.testing.verdict import Unreachable, reached

    said, config, cassette = _marked(request.node), request.config, _cassette(request.node)
    mode, (revision, way) = config.getoption("--mcp-record"), mcp_spoken
    recording = cassette is not None and (mode == "all" or (mode == "once" and not cassette.exists()))
    server, seconds = mcp_server, float(said.get("timeout") or config.getini("mcp_timeout"))
    if cassette is not None and not recording:
        if not cassette.exists():
            _fail(f"no cassette {cassette}; --mcp-record=once records it")
        server = _opened(Replay, cassette)
        mcp_traffic.replays.append(server)

    with ExitStack() as stack:

        def connect(target: Any = None, **options: Any) -> Client:
            if target is None and server is None:
                _fail("no MCP server: give --mcp-server, mcp_server in the ini file, or a fixture mcp_server")
            try:
                target = reached(server, way, stack, strict="over" in said) if target is None else target
            except Unreachable as problem:
                _fail(str(problem))
            usual = {"timeout": seconds, "connect_timeout": seconds, **({"revision": revision} if revision else {})}
            usual |= mcp_traffic.answers.options() if mcp_traffic.answers else {}
            return stack.enter_context(Client(target, **{**usual, **options}, trace=mcp_traffic.recorder))

        yield connect
    if cassette is not None and recording and mcp_traffic.passed:
        # Cassettes are committed: what users typed is in them, and no secret.
        mcp_traffic.save(cassette, forms=True)


def _opened(kind: Any, path: Path, *arguments: Any) -> Any:
    try:
        return kind(path, *arguments)
    except (OSError, ValueError) as problem:
        _fail(f"the recording cannot be replayed: {problem}")


@pytest.fixture
def mcp_client(mcp_connect: Callable[..., Client], mcp_server: Any) -> Client:
    """Return a connected client of the server."""
    from mcp_ref import McpError

    try:
        return mcp_connect()
    except (McpError, OSError) as problem:
        _fail(f"no connection to the MCP server: {str(problem).partition(chr(10))[0]}")


@pytest.fixture
def mcp_replay(request: pytest.FixtureRequest, mcp_traffic: Traffic) -> Iterator[Callable[[str], Recorded]]:
    """Yield a recorded server for the program under test: `replay(path)` has a `url` and a `command`, or is a
    target.
    """
    from mcp_ref.lab.testing.verdict import Recorded

    with ExitStack() as stack:

        def opened(path: str) -> Recorded:
            replay: Recorded = _opened(Recorded, request.path.parent / path, stack)
            mcp_traffic.replays.append(replay)
            return replay

        yield opened


@pytest.fixture
def mcp_contract(
    request: pytest.FixtureRequest, mcp_connect: Callable[..., Client], mcp_server: Any
) -> Callable[[str], list[Change]]:
    """Fails if the server breaks the contract of a name: `check("travel")`; returns the changes that break nothing."""
    from mcp_ref.lab.testing.contract import NoContract, contract_diff, contract_of, write_contract

    def check(name: str = "server") -> list[Change]:
        path = request.path.parent / "contracts" / f"{name}.json"
        now = contract_of(mcp_connect(mcp_server, revision=None))
        if request.config.getoption("--mcp-update"):
            path.parent.mkdir(exist_ok=True)
            write_contract(path, now)
        try:
            changes = contract_diff(json.loads(path.read_text("utf-8")), now)
        except FileNotFoundError:
            _fail(f"no contract {path}; --mcp-update writes it")
        except (ValueError, NoContract, RecursionError) as problem:
            _fail(f"{path}: {problem}")
        if broken := [str(change) for change in changes if change.effect == "breaking"]:
            _fail(f"the contract {path.name} is broken; --mcp-update accepts that", *broken)
        return changes

    return check


@pytest.fixture
def mcp_authorization(mcp_traffic: Traffic) -> Iterator[Callable[..., tuple[str, Login]]]:
    """Guards a server: `guard(server, scopes)` gives its URL, and a login; `auth=login()` logs in without a browser."""
    from mcp_ref.lab.testing.authorization_server import AuthorizationServer
    from mcp_ref.lab.testing.verdict import Login

    with ExitStack() as stack:

        def guard(server: Any, scopes: tuple[str, ...] = ("use",), **options: Any) -> tuple[str, Login]:
            issuer = AuthorizationServer(users={"ada": "a password"}, scopes=scopes)
            protection = issuer.protection(scopes=scopes)
            service = stack.enter_context(server.serve_http(authorization=protection, **options))
            return service.url, Login(issuer, "ada")

        yield guard
