"""Lesson 20: several servers under one policy, and asking the user.

Era:       both
Revision:  2024-11-05 to 2026-07-28
Page:      architecture
Needs:     lessons 1, 5

A host has a client for each server, and one place that decides what may pass: rules first, then what the user decided
before, then the user. Nothing of this is on the wire: the servers see calls, or none.

    python examples/20_several_servers.py
"""

from mcp_ref import Answer, Consent, ConsentRefused, Entry, Host, Question, Rule, Server, ServerDown


def shop(name: str) -> Server:
    server = Server("shop")  # both call themselves alike; that is a claim, and decides nothing

    @server.tool()
    def price(of: str) -> str:
        """What something costs."""
        return f"{of} costs {len(of) + len(name)} at {name}"

    @server.tool()
    def pay(amount: int) -> str:
        """Pay."""
        return f"{amount} paid to {name}"

    return server


def ask(question: Question) -> Answer | bool:
    """The user, who reads what is shown and answers by what they see."""
    print(f"  asked: {question.kind} {question.subject}")
    if question.kind == "start":
        return Answer(True, remember="run")
    return bool(question.shown["arguments"]["amount"] < 10)


# 1. Rules of three words: a decision, a kind, a pattern. Deny counts before ask, and ask before allow.
consent = Consent([Rule("allow", "tool", "*/price"), Rule("deny", "tool", "shady/*")], ask=ask, keep=False)
entries = [
    Entry("corner", shop("corner"), revision="2024-11-05"),
    Entry("market", shop("market"), revision="2026-07-28"),
    Entry("shady", shop("shady")),
    Entry("closed", ["/no/such/program"]),
]
print("starting:")
with Host(entries, consent=consent) as host:
    # 2. One that cannot be started has failed, and the others are there.
    for name, hosted in host.servers.items():
        print(f"{name}: {hosted.state}")

    # 3. Names are those of the configuration.
    print("tools:", ", ".join(tool.name for tool in host.tools()))
    print("for a model:", ", ".join(tool["name"] for tool in host.for_model()))

    # 4. What a rule allows passes, what a rule denies does not, and for the rest the user is asked.
    for name, arguments in (
        ("corner/price", {"of": "bread"}),
        ("market/pay", {"amount": 5}),
        ("market/pay", {"amount": 500}),
        ("shady/price", {"of": "bread"}),
        ("closed/price", {"of": "bread"}),
    ):
        print(f"{name} {arguments}:")
        try:
            print(" ", host.call(name, arguments)["content"][0]["text"])
        except ConsentRefused as refused:
            print("  refused, by", refused.by)
        except ServerDown as down:
            print(" ", str(down).split(":")[0])

# Output:
#
# starting:
#   asked: start corner
#   asked: start market
#   asked: start shady
#   asked: start closed
# corner: ready
# market: ready
# shady: ready
# closed: failed
# tools: corner/price, corner/pay, market/price, market/pay, shady/price, shady/pay
# for a model: corner__price, corner__pay, market__price, market__pay
# corner/price {'of': 'bread'}:
#   bread costs 11 at corner
# market/pay {'amount': 5}:
#   asked: tool market/pay
#   5 paid to market
# market/pay {'amount': 500}:
#   asked: tool market/pay
#   refused, by user
# shady/price {'of': 'bread'}:
#   refused, by rule
# closed/price {'of': 'bread'}:
#   server 'closed' is failed
