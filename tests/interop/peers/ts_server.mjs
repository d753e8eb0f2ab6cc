/* A server made with version 1 of the official SDK for TypeScript, for what becomes of sessions over HTTP. What else
that SDK offers, the server "everything" has.

Usage: NODE_PATH=node_modules node ts_server.mjs http | resumable [PORT]

It prints its URL, and then a line for each request, such as "DELETE 200". */

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const { Server } = require("@modelcontextprotocol/sdk/server/index.js");
const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const [way, port = "0"] = process.argv.slice(2);
const text = (words) => ({ type: "text", text: words });
const said = (words) => ({ content: [text(words)] });

/** An event that can be waited for, for 5 seconds. */
class Happening {
  waiting = [];
  happened = false;
  set() {
    this.happened = true;
    for (const tell of this.waiting.splice(0)) tell(true);
  }
  async within() {
    if (this.happened) return true;
    let timer;
    const late = new Promise((tell) => (timer = setTimeout(tell, 5000, false)));
    const found = await Promise.race([late, new Promise((tell) => this.waiting.push(tell))]);
    clearTimeout(timer);
    return found;
  }
}

/** Every event, for as long as the program runs. */
class Events {
  kept = [];
  async storeEvent(stream, message) {
    this.kept.push({ stream, message });
    return String(this.kept.length);
  }
  async getStreamIdForEventId(id) {
    return this.kept[Number(id) - 1]?.stream;
  }
  async replayEventsAfter(id, { send }) {
    const after = Number(id);
    const { stream } = this.kept[after - 1];
    for (const [index, event] of this.kept.entries()) {
      // What begins a stream has no message.
      const message = "method" in event.message || "id" in event.message;
      if (index >= after && event.stream === stream && message) await send(String(index + 1), event.message);
    }
    return stream;
  }
}

/** Begin a conversation. */
async function converse(transport) {
  let goingOn = new Happening();
  let grown = false;
  const changes = { listChanged: true };
  const capabilities = { tools: changes, prompts: changes, resources: changes };
  const server = new Server({ name: "theirs", version: "9.8.7" }, { capabilities });

  const calls = {
    add: async ({ a, b }) => said(String(a + b)),
    sample: async (_, extra) => {
      const params = { messages: [{ role: "user", content: text("Capital?") }], maxTokens: 50 };
      const answer = await extra.sendRequest({ method: "sampling/createMessage", params }, types.CreateMessageResultSchema);
      return said(JSON.stringify(answer));
    },
    grow: async () => {
      grown = !grown;
      await server.sendToolListChanged();
      await server.sendResourceListChanged();
      await server.sendPromptListChanged();
      return said(grown ? "grown" : "shrunk");
    },
    pause: async ({ hang_up }, extra) => {
      const tell = (progress) => {
        const params = { progressToken: extra._meta.progressToken, progress, total: 2 };
        return extra.sendNotification({ method: "notifications/progress", params });
      };
      goingOn = new Happening();
      await tell(1);
      if (hang_up) extra.closeSSEStream();
      const wentOn = await goingOn.within();
      await tell(2);
      return said(wentOn ? "went on" : "nobody came");
    },
    go_on: async () => (goingOn.set(), said("go on")),
  };
  const tools = Object.keys(calls).map((name) => ({ name, inputSchema: { type: "object" } }));
  server.setRequestHandler(types.ListToolsRequestSchema, () => ({ tools }));
  server.setRequestHandler(types.CallToolRequestSchema, ({ params }, extra) =>
    calls[params.name](params.arguments ?? {}, extra),
  );
  await server.connect(transport);
}

// -- transports

const sessions = new Map();

const refuse = (response, status, message) => {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ jsonrpc: "2.0", error: { code: -32000, message }, id: null }));
};

async function streamable(request, response) {
  const id = request.headers["mcp-session-id"];
  if (id !== undefined && !sessions.has(id)) return refuse(response, 404, "Session not found");
  let transport = sessions.get(id);
  if (transport === undefined) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (assigned) => sessions.set(assigned, transport),
      onsessionclosed: (ended) => sessions.delete(ended),
      ...(way === "resumable" ? { eventStore: new Events(), retryInterval: 50 } : {}),
    });
    await converse(transport);
  }
  await transport.handleRequest(request, response);
}

const listening = createServer((request, response) => {
  response.on("finish", () => console.log(`${request.method} ${response.statusCode}`));
  streamable(request, response).catch((problem) => {
    console.log(problem.stack);
    if (!response.headersSent) refuse(response, 500, String(problem));
  });
});
listening.listen(Number(port), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${listening.address().port}/mcp`);
});
