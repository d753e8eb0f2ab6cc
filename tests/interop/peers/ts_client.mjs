/* A client made with the official SDK for TypeScript that does what it is told: driven.py says how.

Usage: NODE_PATH=node_modules node ts_client.mjs (sdk | client)      version 1 of the SDK, or version 2

A mode is "legacy", "auto" or a version; version 1 has none. A URL that ends with /sse is that of an event stream of
2024-11-05. */

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const one = process.argv[2] === "sdk";
const parts = one ? ["sdk/client/index.js", "sdk/client/sse.js", "sdk/client/stdio.js", "sdk/client/streamableHttp.js", "sdk/types.js"]
  : ["client", "client/stdio"];
const sdk = Object.assign({}, ...parts.map((part) => require(`@modelcontextprotocol/${part}`)));

const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const questions = [];
const givenUp = new Map(); // what ends an order, by its id
let client, connection;

/** Ask whoever drives. */
const ask = (method) => async ({ params }) => {
  const answer = new Promise((resolve) => questions.push(resolve));
  say({ ask: questions.length - 1, method, params });
  const { result, error } = await answer;
  if (error === undefined) return result;
  throw one ? Object.assign(new Error(error.message), { code: error.code }) : new sdk.ProtocolError(error.code, error.message);
};

function transport([command, ...args]) {
  if (!command.startsWith("http://")) return new sdk.StdioClientTransport({ command, args, env: process.env, stderr: "ignore" });
  const url = new URL(command);
  return url.pathname === "/sse" ? new sdk.SSEClientTransport(url) : new sdk.StreamableHTTPClientTransport(url);
}

async function connect({ target, mode, able }) {
  const capabilities = { roots: one ? { listChanged: true } : {}, sampling: { tools: {} }, elicitation: { form: {}, url: {} } };
  const versionNegotiation = { mode: ["legacy", "auto"].includes(mode) ? mode : { pin: mode } };
  client = new sdk.Client({ name: "sdk", version: "2", title: "The SDK" }, { versionNegotiation, capabilities: able ? capabilities : {} });
  for (const [name, method] of [["CreateMessage", "sampling/createMessage"], ["ListRoots", "roots/list"], ["Elicit", "elicitation/create"]])
    if (able) client.setRequestHandler(one ? sdk[`${name}RequestSchema`] : method, ask(method));
  client.fallbackNotificationHandler = async ({ method, params }) => say({ told: method, params });
  connection = transport(target);
  await client.connect(connection);
  // The SDK forgets whom to tell of progress when the answer is read in the same breath.
  const take = connection.onmessage;
  connection.onmessage = (message, extra) => {
    const { progress, total, message: words = null } = message.params ?? {};
    if (message.method === "notifications/progress") say({ step: [progress, total, words] });
    take(message, extra);
  };
  const revision = one ? (connection.protocolVersion ?? connection._protocolVersion) : client.getNegotiatedProtocolVersion();
  return [revision, client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()];
}

function call(id, { progress, by_hand, ...params }) {
  const stop = new AbortController();
  givenUp.set(id, () => stop.abort("no longer wanted"));
  const options = { signal: stop.signal, ...(progress ? { onprogress: () => undefined } : {}) };
  if (one) return client.request({ method: "tools/call", params }, sdk.CallToolResultSchema, options);
  if (!by_hand) return client.callTool(params, options);
  const result = sdk.withInputRequired(sdk.specTypeSchemas.CallToolResult);
  return client.request({ method: "tools/call", params }, result, { allowInputRequired: true });
}

async function listen(id, params) {
  const listening = await client.listen(params);
  givenUp.set(id, () => listening.close());
  listening.closed.then((how) => say({ listen: id, ended: how }));
  return listening.honoredFilter;
}

const names = {
  ping: "ping",
  "tools/list": "listTools",
  "tools/all": "listTools",
  "resources/list": "listResources",
  "resources/templates/list": "listResourceTemplates",
  "resources/read": "readResource",
  "resources/subscribe": "subscribeResource",
  "resources/unsubscribe": "unsubscribeResource",
  "prompts/list": "listPrompts",
  "prompts/get": "getPrompt",
  "completion/complete": "complete",
  "logging/setLevel": "setLoggingLevel",
  "notifications/roots/list_changed": "sendRootsListChanged",
};

function does(method, params) {
  // Without a cursor version 2 puts all pages together itself.
  if (!one && method.endsWith("/list") && !("cursor" in params)) return client.request({ method });
  const nothing = ["ping", "notifications/roots/list_changed"].includes(method);
  return client[names[method]](...(nothing ? [] : [params.level ?? params]));
}

async function obey({ id, do: what, params = {}, ...order }) {
  try {
    if (what === "connect") say({ id, result: await connect(order) });
    else if (what === "tools/call") say({ id, result: await call(id, params) });
    else if (what === "subscriptions/listen") say({ id, result: await listen(id, params) });
    else say({ id, result: (await does(what, params)) ?? null });
  } catch (problem) {
    const { code, message, data = null } = problem;
    if (problem instanceof (one ? sdk.McpError : sdk.ProtocolError))
      say({ id, error: { code, message: message.replace(/^MCP error -?\d+: /, ""), data } });
    else say({ id, failed: code ?? String(problem.stack) });
    if (what === "connect") await client.close();
  }
}

createInterface({ input: process.stdin }).on("line", async (line) => {
  const order = JSON.parse(line);
  if ("cancel" in order) return givenUp.get(order.cancel)();
  if ("answer" in order) return questions[order.answer](order);
  if (order.do !== "close") return obey(order);
  if (connection.terminateSession) await connection.terminateSession();
  await client.close();
  say({ closed: order.id });
}).on("close", () => process.exit());
