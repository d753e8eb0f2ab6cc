"""Lesson 35: an app, an extension: a document that a server hands out, a host shows, and both talk to.

Era:       stateless
Revision:  2026-07-28
Page:      extensions/apps
Needs:     lessons 9, 20 and 25

A tool names a document of the scheme `ui`. A host that shows apps reads it, as any resource, and puts it into a frame
that reaches nothing but what the document declares. From then on the two speak JSON-RPC through that frame: the app
says that it is ready, is told the arguments and the result of the call, and may ask. What it asks for is checked like a
stranger's words: it calls the tools of its own server alone, of these the ones that are for apps, and only if the user
agrees. Here the app is `HeadlessView`, which needs no browser; lesson 36 has one.

    python examples/35_an_app.py
"""

import threading

from mcp_ref import (
    APPS,
    AppCall,
    Apps,
    Consent,
    Context,
    Entry,
    ErrorResponse,
    Host,
    Question,
    Rule,
    Server,
    TraceEvent,
)
from mcp_ref.testing import HeadlessView

apps = Apps()
apps.html("ui://weather/now", "<!doctype html><title>The weather</title><p id=now></p>", csp={"connectDomains": []})
server = Server("weather", extensions=[apps])


@server.tool(ui="ui://weather/now")
def now(city: str, ctx: Context) -> str:
    """The weather of a city."""
    # A host without apps has the text: it must say everything.
    return f"rain in {city}" + ("" if ctx.renders_apps else ", and no picture of it")


@server.tool(visibility=["app"])
def refresh(city: str) -> str:
    """For the app alone: the model does not see it."""
    return f"sun in {city}"


@server.tool(visibility=["model"])
def forget() -> str:
    """For the model alone."""
    return "forgotten"


def asked(question: Question) -> bool:
    print(f"the user is asked: {question.kind} {question.subject}, which {question.origin} wants")
    return True


def show(events: list[TraceEvent]) -> None:
    """Print what passed between the app and its host: the trace has it beside what passed between client and server."""
    for event in events:
        if event.transport == "postMessage" and isinstance(event.message, dict):
            arrow = "app ->  host" if event.direction == "receive" else "app  <- host"
            what = event.message.get("method") or ("error" if "error" in event.message else "result")
            print(f"{arrow}   {what}")


consent = Consent([Rule("allow", "start")], ask=asked, keep=False)
heard: list[TraceEvent] = []
with Host([Entry("weather", server)], consent=consent, extensions=[APPS], trace=lambda name: heard.append) as host:
    print("the model sees:", *(tool["name"] for tool in host.for_model()))
    arguments = {"city": "Porto"}
    result = host.call("weather/now", arguments, by="user")

    # The document is read, its policy is made, and it waits to be shown. Whoever has a screen posts to the frame what
    # `view.next()` gives, and gives `view.receive` what the frame posts: `HeadlessView` is such a frame.
    view = host.open_app(AppCall("weather/now", arguments, result))
    print(*view.document.policy.split("; "), sep="\n")

    app = HeadlessView(view)
    app.open()
    print("the app is told:", app.told("ui/notifications/tool-result")["content"][0]["text"])
    print("it gets:", app.ask("tools/call", name="refresh", arguments=arguments)["content"][0]["text"])
    try:
        app.ask("tools/call", name="forget", arguments={})
    except ErrorResponse as refused:
        print("it does not get:", refused.code, refused.message)

    # Before an app is taken down it may save what it has.
    closing = threading.Thread(target=view.close)
    closing.start()
    print("it is asked to save:", app.save())
    closing.join()

show(heard)

# Output:
#
# the model sees: weather__now weather__forget
# default-src 'none'
# script-src 'self' 'unsafe-inline'
# style-src 'self' 'unsafe-inline'
# img-src 'self' data:
# font-src 'self'
# media-src 'self' data:
# connect-src 'none'
# frame-src 'none'
# base-uri 'self'
# object-src 'none'
# form-action 'none'
# the app is told: rain in Porto
# the user is asked: tool weather/refresh, which the app ui://weather/now wants
# it gets: sun in Porto
# it does not get: -32602 An app may not call forget
# it is asked to save: the view is closed
# app ->  host   ui/initialize
# app  <- host   result
# app ->  host   ui/notifications/initialized
# app  <- host   ui/notifications/tool-input
# app  <- host   ui/notifications/tool-result
# app ->  host   tools/call
# app  <- host   result
# app ->  host   tools/call
# app  <- host   error
# app  <- host   ui/resource-teardown
# app ->  host   result
