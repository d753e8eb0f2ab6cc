/* A client made with the official SDK for TypeScript that uses every feature of a server of ours, and prints what it saw.

Usage: NODE_PATH=node_modules node ts_client.mjs URL      one that ends with /sse is that of an event stream of 2024-11-05

One JSON object is printed, by the names of the steps: what each returned, or {"error": ...}. */

import { createRequire } from "node:module";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { SSEClientTransport } = require("@modelcontextprotocol/sdk/client/sse.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const WAIT = 10_000;
const asked = [];
const logs = [];
const changes = [];
const answers = [];
const progressed = [];
const watching = new Set();

const client = new Client(
  { name: "sdk", version: "1", title: "The SDK" },
  {
    capabilities: {
      roots: { listChanged: true },
      sampling: { tools: {} },
      elicitation: { form: {}, url: {} },
    },
  },
);

// -- what the server asks and tells

client.setRequestHandler(types.CreateMessageRequestSchema, ({ params }) => {
  asked.push(params);
  if (answers.length > 0) throw answers.shift();
  const from = { role: "assistant", model: "small-1" };
  if (params.tools && params.messages.length === 1) {
    const use = { type: "tool_use", id: "use-1", name: "lookup", input: { word: "tea" } };
    return { ...from, content: [use], stopReason: "toolUse" };
  }
  return { ...from, content: { type: "text", text: "Paris" }, stopReason: "endTurn" };
});
client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: [{ uri: "file:///work", name: "Work" }] }));
client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => {
  asked.push(params);
  return answers.shift();
});
client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => {
  logs.push(params);
  tell();
});
client.fallbackNotificationHandler = async ({ method }) => {
  changes.push(method);
  tell();
};

function tell() {
  for (const look of watching) look();
}

/** Wait until a condition holds, looking at each message of the server. */
async function until(happened) {
  let timer, look;
  const found = new Promise((yes, no) => {
    timer = setTimeout(no, WAIT, new Error("it did not come"));
    look = () => happened() && yes();
    watching.add(look);
    look();
  });
  try {
    await found;
  } finally {
    clearTimeout(timer);
    watching.delete(look);
  }
}

// -- the steps

const call = (name, args = {}, options = undefined) =>
  client.request({ method: "tools/call", params: { name, arguments: args } }, types.CallToolResultSchema, options);

/** The JSON in the first block of a result; of one that failed, all of it. */
async function say(name) {
  const result = await call(name);
  return result.isError ? result : JSON.parse(result.content[0].text);
}

/** The progress of a call, and its result. */
async function progressing(name, args = {}) {
  progressed.length = 0;
  const result = await call(name, args, { onprogress: () => undefined });
  return [progressed.map(({ progress, total, message = null }) => [progress, total, message]), result];
}

async function pages(ask, key) {
  const found = [];
  for (let cursor; ; ) {
    const page = await ask(cursor === undefined ? undefined : { cursor });
    found.push(page[key]);
    cursor = page.nextCursor;
    if (cursor === undefined) return found;
  }
}

const steps = {
  introduction: async () => {
    return [revision, client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()];
  },
  ping: () => client.ping(),
  tools: () => pages((params) => client.listTools(params), "tools"),
  resources: () => pages((params) => client.listResources(params), "resources"),
  prompts: () => pages((params) => client.listPrompts(params), "prompts"),
  templates: () => pages((params) => client.listResourceTemplates(params), "resourceTemplates"),
  bad_cursor: () => client.listTools({ cursor: "no such page" }),
  add: () => call("add", { a: 2, b: 40 }),
  add_wrong: () => call("add", { a: "two" }),
  weather: () => client.callTool({ name: "weather", arguments: { city: "Porto" } }),
  everything: () => call("everything"),
  fail: () => call("fail"),
  crash: () => call("crash"),
  refuse: () => call("refuse"),
  unknown_tool: () => call("no such tool"),
  whoami: () => say("whoami"),
  ping_back: () => call("ping_back"),
  progress: async () => (await progressing("count", { to: 3 }))[0],
  hang_up: () => progressing("hang_up"),
  cancel: async () => {
    const giveUp = new AbortController();
    const ended = call("wait", {}, { signal: giveUp.signal }).catch((problem) => problem);
    await until(() => logs.some((message) => message.data === "waiting"));
    giveUp.abort("no longer wanted");
    await ended;
    return await call("was_given_up");
  },
  all_levels: async () => {
    logs.length = 0;
    await call("shout");
    await until(() => logs.length === 8);
    return [...logs];
  },
  from_error_on: async () => {
    await client.setLoggingLevel("error");
    logs.length = 0;
    await call("shout");
    await until(() => logs.length === 4);
    await client.setLoggingLevel("debug");
    return logs.map((message) => message.level);
  },
  read_text: () => client.readResource({ uri: "note://text" }),
  read_blob: () => client.readResource({ uri: "note://blob" }),
  read_both: () => client.readResource({ uri: "note://both" }),
  read_template: () => client.readResource({ uri: "note://user/ada" }),
  read_nothing: () => client.readResource({ uri: "note://nowhere" }),
  updates: async () => {
    changes.length = 0;
    await client.subscribeResource({ uri: "note://text" });
    await call("touch", { uri: "note://text" });
    await call("touch", { uri: "note://blob" });
    await until(() => changes.length > 0);
    await client.unsubscribeResource({ uri: "note://text" });
    await call("touch", { uri: "note://text" });
    await client.ping();
    return [...changes];
  },
  list_changes: async () => {
    changes.length = 0;
    await call("grow");
    await until(() => changes.length === 3);
    const grown = (await steps.tools()).flat().map((tool) => tool.name);
    await call("shrink");
    await until(() => changes.length === 6);
    const shrunk = (await steps.tools()).flat().map((tool) => tool.name);
    return [changes.slice(0, 3), grown.includes("grown"), shrunk.includes("grown")];
  },
  greet: () => client.getPrompt({ name: "greet", arguments: { name: "Ada", tone: "warm" } }),
  greet_nobody: () => client.getPrompt({ name: "greet", arguments: {} }),
  talk: () => client.getPrompt({ name: "talk" }),
  unknown_prompt: () => client.getPrompt({ name: "no such prompt" }),
  complete_prompt: () =>
    client.complete({
      ref: { type: "ref/prompt", name: "greet" },
      argument: { name: "name", value: "ad" },
      context: { arguments: { tone: "!" } },
    }),
  complete_template: () =>
    client.complete({
      ref: { type: "ref/resource", uri: "note://user/{name}" },
      argument: { name: "name", value: "u" },
    }),
  complete_unknown: () =>
    client.complete({ ref: { type: "ref/prompt", name: "nope" }, argument: { name: "name", value: "" } }),
  folders: () => call("folders"),
  roots_changed: async () => {
    logs.length = 0;
    await client.sendRootsListChanged();
    await until(() => logs.length > 0);
    return logs[0];
  },
  sample: async () => [await say("sample"), [...asked]],
  sample_refused: () => {
    answers.push(Object.assign(new Error("User rejected sampling request"), { code: -1 }));
    return call("sample");
  },
  sample_with_tools: async () => [await say("sample_with_tools"), [...asked]],
  ask: async () => {
    answers.push({ action: "accept", content: { name: "Ada", age: 36, seat: "aisle" } });
    return [await say("ask"), [...asked]];
  },
  ask_declined: () => {
    answers.push({ action: "decline" });
    return say("ask");
  },
  ask_wrong: () => {
    answers.push({ action: "accept", content: { name: "", age: 200, seat: "roof" } });
    return call("ask");
  },
  visit: async () => {
    changes.length = 0;
    answers.push({ action: "accept" });
    const answer = await say("visit");
    if (answer.action === "accept") await until(() => changes.length > 0);
    return [answer, [...asked], [...changes]];
  },
  guarded: () => call("guarded"),
  guarded_again: () => call("guarded"),
};

const url = new URL(process.argv[2]);
const sse = url.pathname === "/sse";
let session, ended;

/** Note the session id that the server assigns, and the status of its end. */
async function noting(target, options) {
  const response = await fetch(target, options);
  session ??= response.headers.get("mcp-session-id");
  if (options?.method === "DELETE") ended = response.status;
  return response;
}

const transport = sse ? new SSEClientTransport(url) : new StreamableHTTPClientTransport(url, { fetch: noting });
await client.connect(transport);
const revision = transport.protocolVersion ?? transport._protocolVersion;
const take = transport.onmessage;
transport.onmessage = (message, extra) => {
  // The SDK forgets whom to tell of progress when the answer is read in the same breath.
  if (message.method === "notifications/progress") progressed.push(message.params);
  take(message, extra);
};
const seen = {};
for (const [name, step] of Object.entries(steps)) {
  asked.length = answers.length = 0;
  try {
    seen[name] = await step();
  } catch (problem) {
    if (problem instanceof types.McpError) {
      const message = problem.message.replace(/^MCP error -?\d+: /, "");
      seen[name] = { error: { code: problem.code, message, data: problem.data ?? null } };
    } else {
      seen[name] = { failed: String(problem) };
    }
  }
}
if (!sse) {
  await transport.terminateSession();
  const headers = {
    "Mcp-Session-Id": session,
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
  seen.ended = [ended, (await fetch(url, { method: "POST", headers, body })).status];
}
await client.close();
// It would go on trying to resume the stream of the call that it gave up.
process.stdout.write(JSON.stringify(seen), () => process.exit());
