/* A client made with the official SDK for TypeScript that uses every feature of a server of ours, and prints what it saw.

Usage: NODE_PATH=node_modules node ts_client.mjs URL      one that ends with /sse is that of an event stream of 2024-11-05

One JSON object is printed, by the names of the steps: what each returned, or {"error": ...}. */

import { createRequire } from "node:module";
import { answers, asked, changes, log, logs, noteProgress, progressed, roots, sample, tell, until } from "./ts_steps.mjs";
import { commonSteps, pages, printed, taken } from "./ts_steps.mjs";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { SSEClientTransport } = require("@modelcontextprotocol/sdk/client/sse.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");

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

client.setRequestHandler(types.CreateMessageRequestSchema, sample);
client.setRequestHandler(types.ListRootsRequestSchema, roots);
client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => {
  asked.push(params);
  return answers.shift();
});
client.setNotificationHandler(types.LoggingMessageNotificationSchema, log);
client.fallbackNotificationHandler = async ({ method }) => {
  changes.push(method);
  tell();
};

// -- the steps

const call = (name, args = {}, options = undefined) =>
  client.request({ method: "tools/call", params: { name, arguments: args } }, types.CallToolResultSchema, options);

const refusal = (words) => Object.assign(new Error(words), { code: -1 });
const { say, steps: common } = commonSteps(client, call, refusal);

/** The progress of a call, and its result. */
async function progressing(name, args = {}) {
  const result = await call(name, args, { onprogress: () => undefined });
  return [progressed.map(({ progress, total, message = null }) => [progress, total, message]), result];
}

const steps = {
  ...common,
  introduction: async () => {
    return [revision, client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()];
  },
  ping: () => client.ping(),
  tools: () => pages((params) => client.listTools(params), "tools"),
  resources: () => pages((params) => client.listResources(params), "resources"),
  prompts: () => pages((params) => client.listPrompts(params), "prompts"),
  templates: () => pages((params) => client.listResourceTemplates(params), "resourceTemplates"),
  weather: () => client.callTool({ name: "weather", arguments: { city: "Porto" } }),
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
  read_both: () => client.readResource({ uri: "note://both" }),
  updates: async () => {
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
    await call("grow");
    await until(() => changes.length === 3);
    const grown = (await steps.tools()).flat().map((tool) => tool.name);
    await call("shrink");
    await until(() => changes.length === 6);
    const shrunk = (await steps.tools()).flat().map((tool) => tool.name);
    return [changes.slice(0, 3), grown.includes("grown"), shrunk.includes("grown")];
  },
  complete_unknown: () =>
    client.complete({ ref: { type: "ref/prompt", name: "nope" }, argument: { name: "name", value: "" } }),
  roots_changed: async () => {
    await client.sendRootsListChanged();
    await until(() => logs.length > 0);
    return logs[0];
  },
  visit: async () => {
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
noteProgress(transport);
const seen = await taken(steps, async (step) => {
  try {
    return await step();
  } catch (problem) {
    return problem instanceof types.McpError ? printed(problem) : { failed: String(problem) };
  }
});
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
