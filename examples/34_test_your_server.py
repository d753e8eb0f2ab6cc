"""Lesson 34: test your server.

Era:       both
Revision:  2025-11-25, 2026-07-28
Page:      every page: what is said in a test is held against the sentences of all of them
Needs:     lessons 1, 5 and 31, and pytest: pip install pytest

Where the package is installed, pytest has its fixtures. A test takes `mcp_client`, which is connected to your server,
and calls it: there is no event loop. What passes between the two is judged. So a test also fails if a sentence of the
specification is broken, or if the server asks what the test did not foresee, and it says which, and whose fault it is.

    python examples/34_test_your_server.py
"""

import tempfile
from pathlib import Path

import pytest

from mcp_ref.lab.testing import plugin

SERVERS = """
from mcp_ref import Context, Server

SEAT = {"seat": {"type": "string", "enum": ["aisle", "window"]}}
good, careless = Server("travel", "1"), Server("travel", "2")


@good.tool("forecast")
def forecast(city: str) -> str:
    return f"{city}: sun"


@good.tool("book")
def book(city: str, ctx: Context) -> str:
    return f"{city}: {ctx.elicit('Where do you want to sit?', SEAT)['content']['seat']}"


@careless.tool("forecast")
def embedded(city: str) -> list:
    # A server that embeds a resource should have resources.
    about = {"uri": "file:///lisbon.txt", "text": "on the Tagus"}
    return [{"type": "text", "text": f"{city}: sun"}, {"type": "resource", "resource": about}]


@careless.tool("book")
def book_and_ask_on(city: str, ctx: Context) -> str:
    booked = book(city, ctx)
    ctx.elicit("May we call you?", {"telephone": {"type": "string"}})
    return booked
"""

TESTS = """
import pytest
from mcp_ref import text_of


def test_forecast(mcp_client):
    assert "Lisbon: sun" in text_of(mcp_client.call_tool("forecast", {"city": "Lisbon"}))


@pytest.mark.mcp(revisions="eras")
def test_book(mcp_client, mcp_answers):
    mcp_answers.elicit({"seat": "aisle"})
    assert text_of(mcp_client.call_tool("book", {"city": "Lisbon"})) == "Lisbon: aisle"
"""


class Lines:
    """In place of pytest's own lines: one for each test, and why it fails."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            print(report.nodeid, report.outcome)
            if report.failed:
                print(*(line[:100] for line in report.longreprtext.splitlines()), sep="\n")


with tempfile.TemporaryDirectory() as folder:
    Path(folder, "travel.py").write_text(SERVERS)
    tests = Path(folder, "test_travel.py")
    tests.write_text(TESTS)
    # At a terminal: pytest --mcp-server=travel:good test_travel.py
    for server in ("good", "careless"):
        print(f"-- {server}")
        options = [f"--rootdir={folder}", f"--mcp-server=travel:{server}", "-pno:terminal", "-pno:cacheprovider"]
        # Where the package is installed, pytest loads the plugin itself. Here it is given, whichever one is installed.
        pytest.main([str(tests), *options, "-pno:mcp_ref"], plugins=[plugin, Lines()])

# Output:
#
# -- good
# test_travel.py::test_forecast passed
# test_travel.py::test_book[2025-11-25] passed
# test_travel.py::test_book[2026-07-28] passed
# -- careless
# test_travel.py::test_forecast failed
# 1 finding in the MCP traffic of this test
# 4: SHOULD, server: A server whose tools embed resources has the capability `resources`.
#     rule:     embedding_servers_have_resources
#     expected: resources among the capabilities
#     answers:  3: tools/call, id 2
#     says so:  2026-07-28/server/tools#embedded-resources.2
#     message:  {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","t
# to allow one: @pytest.mark.mcp(allow=[RULE]), or mcp_allow in the ini file
# test_travel.py::test_book[2025-11-25] failed
# the server asked what no answer was scripted for: elicit: 'May we call you?'
# test_travel.py::test_book[2026-07-28] failed
# the server asked what no answer was scripted for: elicit: 'May we call you?'
