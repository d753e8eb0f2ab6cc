/* A server made with version 2 of the official SDK for TypeScript that offers every feature of the stateless era, for
our client.

Usage: NODE_PATH=node_modules node ts_stateless_server.mjs (stdio | http | json) [PORT [ERA]]

ERA: "both" (the default); "stateless": it refuses clients of the session era; "session": it knows nothing else. Over
HTTP it prints its URL. In the stateless era a handler returns its questions, and gets the answers when it is called
again. */

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const sdk = require("@modelcontextprotocol/server");
const { StdioServerTransport, serveStdio } = require("@modelcontextprotocol/server/stdio");
const { toNodeHandler } = require("@modelcontextprotocol/node");

const [way, port = "0", era = "both"] = process.argv.slice(2);
const PIXEL = "iVBORw0KGgo=";
const PAGE = 4;
const NOTHING = { type: "object" };
const NAME = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
const FORM = {
  type: "object",
  properties: {
    name: { type: "string", title: "Name", minLength: 1, maxLength: 20 },
    age: { type: "integer", minimum: 0, maximum: 150 },
    agrees: { type: "boolean", default: false },
    seat: { type: "string", enum: ["window", "aisle"], enumNames: ["Window", "Aisle"] },
  },
  required: ["name", "age"],
};
const FORECAST = {
  type: "object",
  properties: { city: { type: "string" }, degrees: { type: "number" } },
  required: ["city", "degrees"],
};

const runs = {};
let grown = false;
let header = "Region";
let givenUp = signal();
let entry; // what the SDK serves with: it tells of changes

/** Something that is waited for. */
function signal() {
  let set;
  const happened = new Promise((resolve) => (set = resolve));
  return { set, happened: () => Promise.race([happened.then(() => "yes"), pause(5000, "no", { ref: false })]) };
}

const failure = (code, message, data) => new sdk.ProtocolError(code, message, data);
const text = (words) => ({ type: "text", text: words });
const said = (words) => ({ content: [text(words)] });
const saidJson = (value) => said(JSON.stringify(value));
const count = (name) => (runs[name] = (runs[name] ?? 0) + 1);

// -- basic/patterns/mrtr

const states = sdk.createRequestStateCodec({ key: crypto.getRandomValues(new Uint8Array(32)) });
const { inputRequired } = sdk;
const form = (message, requestedSchema) => inputRequired.elicit({ message, requestedSchema });
const model = (more = {}) =>
  inputRequired.createMessage({ messages: [{ role: "user", content: text("A rhyme") }], maxTokens: 20, ...more });

/** Ask for what is not there yet, and go on with it. */
const once = (key, question, go) => (args, ctx) => {
  const answer = ctx.mcpReq.inputResponses?.[key];
  return answer === undefined ? inputRequired({ inputRequests: { [key]: question() } }) : go(answer);
};

/** Ask the user, the model and for the folders, one after the other: what was answered is in the state. */
async function three(args, ctx) {
  count("three");
  const known = { ...(ctx.mcpReq.requestState() ?? {}), ...(ctx.mcpReq.inputResponses ?? {}) };
  const questions = [
    ["name", () => form("Your name?", NAME)],
    ["rhyme", model],
    ["folders", inputRequired.listRoots],
  ];
  for (const [key, question] of questions)
    if (known[key] === undefined)
      return inputRequired({ inputRequests: { [key]: question() }, requestState: await states.mint(known) });
  const folders = known.folders.roots.map((root) => root.uri);
  return saidJson({ name: known.name.content.name, rhyme: known.rhyme.content.text, folders });
}

/** Ask three things at once. */
function together(args, ctx) {
  count("together");
  const answers = ctx.mcpReq.inputResponses;
  if (answers !== undefined)
    return saidJson([answers.a.content.name, answers.b.content.name, answers.c.roots.length]);
  const questions = { a: form("Your name?", NAME), b: form("Another?", NAME), c: inputRequired.listRoots() };
  return inputRequired({ inputRequests: questions });
}

/** Have the client come back at once, with the state alone. */
async function later(args, ctx) {
  const state = ctx.mcpReq.requestState();
  if (state !== undefined) return said(`back with ${JSON.stringify(state)}`);
  return inputRequired({ requestState: await states.mint({ come: "back" }) });
}

const lookup = { tools: [{ name: "lookup", inputSchema: NOTHING }], toolChoice: { mode: "auto" } };
const briefly = {
  messages: [{ role: "user", content: text("What is the capital of France?") }],
  maxTokens: 50,
  systemPrompt: "Be brief.",
  temperature: 0.5,
  stopSequences: ["\n\n"],
  modelPreferences: { hints: [{ name: "small" }], speedPriority: 0.9 },
};
const page = { message: "Please sign in.", url: "https://example.com/sign-in" };

const rounds = {
  three,
  together,
  later,
  ask: once("form", () => form("Who are you?", FORM), saidJson),
  visit: once("page", () => inputRequired.elicitUrl(page), saidJson),
  sample: once("model", () => model(briefly), saidJson),
  folders: once("roots", inputRequired.listRoots, (answer) => saidJson(answer.roots)),
  sample_with_tools: once("model", () => model(lookup), saidJson),
  // The SDK refuses by itself what the client did not declare.
  needs: once("model", () => model(lookup), () => said("it has it")),
};

// -- the other tools

const tellers = { tools: "toolsChanged", resources: "resourcesChanged", prompts: "promptsChanged" };
const senders = {
  tools: "sendToolListChanged",
  resources: "sendResourceListChanged",
  prompts: "sendPromptListChanged",
};

async function changed(server, list) {
  if (entry.notify === undefined) await server[senders[list]]();
  else entry.notify[tellers[list]]();
}

const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

const others = {
  add: (args) => said(String(args.a + args.b)),
  weather: (args) => {
    const forecast = { city: args.city ?? "Lisbon", degrees: 21.5 };
    return { ...saidJson(forecast), structuredContent: forecast };
  },
  wrong_weather: () => ({ content: [], structuredContent: { city: 1 } }),
  everything: () => ({
    content: [
      text("hello"),
      { type: "image", data: PIXEL, mimeType: "image/png" },
      { type: "audio", data: PIXEL, mimeType: "audio/wav" },
      { type: "resource", resource: { uri: "note://text", text: "a note" } },
      { type: "resource", resource: { uri: "note://blob", blob: PIXEL } },
      { type: "resource_link", uri: "note://text", name: "text" },
    ],
  }),
  fail: () => ({ ...said("it did not work"), isError: true }),
  refuse: () => {
    throw failure(4242, "not for you", { why: "a test" });
  },
  count: async (args, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let progress = 1; progressToken !== undefined && progress <= args.to; progress++) {
      const params = { progressToken, progress, total: args.to, message: `number ${progress}` };
      await ctx.mcpReq.notify({ method: "notifications/progress", params });
    }
    return said(`counted to ${args.to}`);
  },
  wait: async (args, ctx) => {
    const stopped = (givenUp = signal());
    ctx.mcpReq.signal.addEventListener("abort", () => stopped.set());
    await ctx.mcpReq.log("info", "waiting");
    await new Promise((resolve) => ctx.mcpReq.signal.addEventListener("abort", resolve));
    return said("not reached");
  },
  was_given_up: async () => said(await givenUp.happened()),
  shout: async (args, ctx) => {
    for (const level of LEVELS) await ctx.mcpReq.log(level, { said: level }, "shouter");
    return said("shouted");
  },
  whoami: (args, ctx) => saidJson({ meta: ctx.mcpReq.envelope }),
  grow: async (args, ctx, server) => {
    grown = !grown;
    for (const list of ["tools", "resources", "prompts"]) await changed(server, list);
    return said(grown ? "grown" : "shrunk");
  },
  touch: async (args, ctx, server) => {
    if (entry.notify === undefined) await server.sendResourceUpdated({ uri: args.uri });
    else entry.notify.resourceUpdated(args.uri);
    return said("touched");
  },
  let_go: async () => {
    // The SDK ends its subscriptions when it ends as a whole.
    setImmediate(() => entry.close());
    return said("gone");
  },
  how_often: (args) => saidJson(runs[args.what] ?? 0),
  route: (args, ctx) => {
    const headers = ctx.http === undefined ? [] : [...ctx.http.req.headers];
    return saidJson(Object.fromEntries(headers.filter(([name]) => name.startsWith("mcp-"))));
  },
  move_header: () => {
    header = header === "Region" ? "Area" : "Region";
    return said("moved");
  },
};

const calls = { ...others, ...rounds };
const zone = { type: "string", "x-mcp-header": "Zone" };
const routed = () => ({
  type: "object",
  properties: {
    region: { type: "string", "x-mcp-header": header },
    count: { type: "integer", "x-mcp-header": "Count" },
    fast: { type: "boolean", "x-mcp-header": "Fast" },
    where: { type: "object", properties: { zone } },
  },
});

const tools = () => [
  ...Object.keys(calls).map((name) => ({
    name,
    inputSchema: name === "route" ? routed() : NOTHING,
    ...(name.endsWith("weather") ? { outputSchema: FORECAST } : {}),
  })),
  ...(grown ? [{ name: "grown", inputSchema: NOTHING }] : []),
];

/** One page of a list, and the cursor of the next. */
function paged(key, items, params) {
  const start = Number(params?.cursor ?? 0);
  const next = start + PAGE < items.length ? { nextCursor: String(start + PAGE) } : {};
  return { [key]: items.slice(start, start + PAGE), ...next };
}

// -- the server

const asking = (go) => once("who", () => form("Your name?", NAME), (answer) => go(answer.content.name));
const promptAsking = asking((name) => ({ messages: [{ role: "user", content: text(`Greet ${name}.`) }] }));

function read({ uri }, ctx) {
  const contents = (more) => ({ contents: [{ uri, ...more }] });
  if (uri === "note://text") return contents({ mimeType: "text/plain", text: "a note" });
  if (uri === "note://blob") return contents({ mimeType: "image/png", blob: PIXEL });
  if (uri === "note://counted") return contents({ text: String(count(uri)) });
  if (uri === "note://asking") return asking((name) => contents({ text: `a note for ${name}` }))({}, ctx);
  if (uri.startsWith("note://user/")) return contents({ text: `note of ${uri.slice(12)}` });
  throw failure(-32602, "Resource not found", { uri });
}

function written({ name, arguments: args }, ctx) {
  if (name === "asking") return promptAsking({}, ctx);
  if (name !== "greet") throw failure(-32602, `Unknown prompt: ${name}`);
  return { description: "Greet.", messages: [{ role: "user", content: text(`Greet ${args.name}.`) }] };
}

function completed({ ref, argument }) {
  if (ref.type === "ref/resource") {
    const values = [...Array(100).keys()].map((number) => `${argument.value}${number}`);
    return { completion: { values, total: 150, hasMore: true } };
  }
  return { completion: { values: ["Ada", "Adele", "Bob"].filter((name) => name.startsWith(argument.value)) } };
}

function make() {
  const changes = { listChanged: true };
  const whole = new sdk.McpServer(
    { name: "theirs", version: "9.8.7", title: "Theirs" },
    {
      instructions: "Offers everything.",
      capabilities: {
        tools: changes,
        prompts: changes,
        resources: { ...changes, subscribe: true },
        completions: {},
        logging: {},
        experimental: { "example.com/trial": { on: true } },
      },
      cacheHints: {
        "prompts/list": { ttlMs: 60_000, cacheScope: "public" },
        "resources/read": { ttlMs: 30_000 },
      },
      requestState: { verify: states.verify },
    },
  );
  // The SDK compares headers with the schema of a tool that is registered with it, and of no other.
  whole.registerTool("route", { inputSchema: sdk.fromJsonSchema(routed()) }, () => said(""));
  const { server } = whole;
  const resources = ["text", "blob", "counted", "asking", "a", "b"].map((name) => ({ uri: `note://${name}`, name }));
  const greet = { name: "greet", arguments: [{ name: "name", description: "who is greeted", required: true }] };
  const prompts = [greet, { name: "asking" }, ...[1, 2, 3].map((number) => ({ name: `many${number}` }))];
  const templates = [{ uriTemplate: "note://user/{name}", name: "of_user", mimeType: "text/plain" }];
  server.setRequestHandler("tools/list", ({ params }) => paged("tools", tools(), params));
  server.setRequestHandler("resources/list", ({ params }) => paged("resources", resources, params));
  server.setRequestHandler("prompts/list", ({ params }) => paged("prompts", prompts, params));
  server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: templates }));
  server.setRequestHandler("tools/call", ({ params }, ctx) => {
    const tool = calls[params.name];
    if (tool === undefined) throw failure(-32602, `Unknown tool: ${params.name}`);
    return tool(params.arguments ?? {}, ctx, server);
  });
  server.setRequestHandler("resources/read", ({ params }, ctx) => read(params, ctx));
  server.setRequestHandler("prompts/get", ({ params }, ctx) => written(params, ctx));
  server.setRequestHandler("completion/complete", ({ params }) => completed(params));
  return whole;
}

// -- transports

const legacy = era === "stateless" ? "reject" : undefined;
if (way !== "stdio") {
  entry = sdk.createMcpHandler(make, { legacy, responseMode: way === "json" ? "json" : "auto" });
  const listening = createServer(toNodeHandler(entry));
  listening.listen(Number(port), "127.0.0.1", () => {
    console.log(`http://127.0.0.1:${listening.address().port}/mcp`);
  });
} else if (era === "session") {
  await make().connect(new StdioServerTransport());
} else {
  entry = serveStdio(make, { legacy });
}
