/* A client made with version 2 of the official SDK for TypeScript that uses every feature of the stateless era of a
server of ours, and prints what it saw.

Usage: NODE_PATH=node_modules node ts_stateless_client.mjs (URL | COMMAND [ARGUMENT ...])

It asks for the stateless era first ("auto"). One JSON object is printed, by the names of the steps: what each returned,
or {"error": ...}. */

import { createRequire } from "node:module";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const sdk = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const WAIT = 10_000;
const [command, ...args] = process.argv.slice(2);
const asked = [];
const logs = [];
const changes = [];
const answers = [];
const posts = [];
const progressed = [];
const watching = new Set();

// -- the two clients

const transport = () =>
  command.startsWith("http://")
    ? new sdk.StreamableHTTPClientTransport(new URL(command), { fetch: noting })
    : new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" });

/** Note the headers of each call over HTTP, and its status. */
async function noting(url, options) {
  const response = await fetch(url, options);
  const headers = Object.fromEntries(new Headers(options.headers));
  if (headers["mcp-method"] === "tools/call") {
    const repeated = Object.entries(headers).filter(([name]) => name.startsWith("mcp-"));
    posts.push({ ...Object.fromEntries(repeated), status: response.status });
  }
  return response;
}

const auto = { versionNegotiation: { mode: "auto" } };
const client = new sdk.Client(
  { name: "sdk", version: "2", title: "The SDK" },
  { ...auto, capabilities: { roots: {}, sampling: { tools: {} }, elicitation: { form: {}, url: {} } } },
);
client.setRequestHandler("sampling/createMessage", ({ params }) => {
  asked.push(params);
  if (answers.length > 0) throw answers.shift();
  const from = { role: "assistant", model: "small-1" };
  if (params.tools && params.messages.length === 1) {
    const use = { type: "tool_use", id: "use-1", name: "lookup", input: { word: "tea" } };
    return { ...from, content: [use], stopReason: "toolUse" };
  }
  return { ...from, content: { type: "text", text: "Paris" }, stopReason: "endTurn" };
});
client.setRequestHandler("roots/list", () => ({ roots: [{ uri: "file:///work", name: "Work" }] }));
client.setRequestHandler("elicitation/create", ({ params }) => {
  asked.push(params);
  const answer = answers.shift();
  if (answer instanceof Error) throw answer;
  const content = params.message.includes("city") ? { city: "Porto" } : { name: "Ada" };
  return answer ?? { action: "accept", content };
});
client.setNotificationHandler("notifications/message", ({ params }) => {
  logs.push(params);
  tell();
});
for (const list of ["tools", "prompts", "resources"]) {
  const method = `notifications/${list}/list_changed`;
  client.setNotificationHandler(method, () => {
    changes.push([`${list[0].toUpperCase()}${list.slice(1)}ListChanged`]);
    tell();
  });
}
client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
  changes.push(["ResourceUpdated", params.uri]);
  tell();
});

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

/** The next changes that are told. */
async function told(number) {
  await until(() => changes.length >= number);
  return changes.splice(0);
}

/** What something returned, or how it failed. */
async function outcome(doing) {
  try {
    return (await doing()) ?? null;
  } catch (problem) {
    if (problem instanceof sdk.ProtocolError) {
      const message = problem.message.replace(/^MCP error -?\d+: /, "");
      return { error: { code: problem.code, message, data: problem.data ?? null } };
    }
    if (problem instanceof sdk.SdkError) return { refused: problem.code };
    return { failed: String(problem.stack) };
  }
}

// -- the steps

const call = (name, args = {}, options = undefined, more = {}) =>
  client.callTool({ name, arguments: args, ...more }, options);

/** The JSON in the first block of a result; of one that failed, all of it. */
async function say(name, args = {}) {
  const result = await call(name, args);
  return result.isError ? result : JSON.parse(result.content[0].text);
}

async function pages(ask, key) {
  const found = [];
  for (let cursor; ; ) {
    // Without a cursor the SDK puts all pages together itself.
    const page = cursor === undefined ? await firstPage(key) : await ask({ cursor });
    found.push(page[key]);
    cursor = page.nextCursor;
    if (cursor === undefined) return found;
  }
}

const METHODS = { resourceTemplates: "resources/templates/list" };
const firstPage = (key) => client.request({ method: METHODS[key] ?? `${key}/list` });

/** One round of a call, driven by hand. */
const round = (name, params = {}) =>
  client.request(
    { method: "tools/call", params: { name, arguments: {}, ...params } },
    sdk.withInputRequired(sdk.specTypeSchemas.CallToolResult),
    { allowInputRequired: true },
  );

const steps = {
  introduction: () => [
    client.getNegotiatedProtocolVersion(),
    client.getServerVersion(),
    client.getServerCapabilities(),
    client.getInstructions(),
  ],
  discover: () => client.discover(),
  unsupported: async () => {
    const other = new sdk.Client(
      { name: "sdk", version: "2" },
      { versionNegotiation: { mode: { pin: "2099-01-01" } } },
    );
    return outcome(() => other.connect(transport()));
  },
  removed: () => client.ping(),
  without_capabilities: async () => {
    const bare = new sdk.Client({ name: "sdk", version: "2" }, auto);
    await bare.connect(transport());
    const found = [];
    for (const name of ["needs", "asks_form", "sample", "folders"])
      found.push(await outcome(() => bare.callTool({ name, arguments: {} })));
    await bare.close();
    return found;
  },
  tools: () => pages((params) => client.listTools(params), "tools"),
  all_tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
  resources: () => pages((params) => client.listResources(params), "resources"),
  prompts: () => pages((params) => client.listPrompts(params), "prompts"),
  templates: () => pages((params) => client.listResourceTemplates(params), "resourceTemplates"),
  bad_cursor: () => client.listTools({ cursor: "no such page" }),
  add: () => call("add", { a: 2, b: 40 }),
  add_wrong: () => call("add", { a: "two" }),
  weather: () => call("weather", { city: "Porto" }),
  everything: () => call("everything"),
  fail: () => call("fail"),
  crash: () => call("crash"),
  refuse: () => call("refuse"),
  unknown_tool: () => call("no such tool"),
  whoami: () => say("whoami"),
  progress: async () => {
    progressed.length = 0;
    await call("count", { to: 3 }, { onprogress: () => undefined });
    return progressed.map((step) => [step.progress, step.total, step.message]);
  },
  quiet: async () => {
    logs.length = 0;
    await call("shout");
    return [...logs];
  },
  loud: async () => {
    logs.length = 0;
    await call("shout", {}, undefined, { _meta: { [sdk.LOG_LEVEL_META_KEY]: "error" } });
    return [...logs];
  },
  cancel: async () => {
    logs.length = 0;
    const giveUp = new AbortController();
    const meta = { _meta: { [sdk.LOG_LEVEL_META_KEY]: "info" } };
    const ended = call("wait", {}, { signal: giveUp.signal }, meta).catch((problem) => problem);
    await until(() => logs.length > 0);
    giveUp.abort("no longer wanted");
    await ended;
    return await call("was_given_up");
  },
  read_text: () => client.readResource({ uri: "note://text" }),
  read_blob: () => client.readResource({ uri: "note://blob" }),
  read_template: () => client.readResource({ uri: "note://user/ada" }),
  read_nothing: () => client.readResource({ uri: "note://nowhere" }),
  kept: async () => {
    const texts = [];
    const read = async () => texts.push((await client.readResource({ uri: "note://counted" })).contents[0].text);
    const listening = await client.listen({ resourceSubscriptions: ["note://counted"] });
    await read();
    await read();
    await call("touch", { uri: "note://counted" });
    await told(1);
    await read();
    await listening.close();
    return [...texts, await say("how_often", { what: "note://counted" })];
  },
  hints: async () => {
    const found = [await firstPage("tools"), await client.listPrompts()];
    found.push(await client.readResource({ uri: "note://text" }));
    return found.map((each) => [each.ttlMs, each.cacheScope]);
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
  listens: async () => {
    const lists = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
    const listening = await client.listen({ ...lists, resourceSubscriptions: ["note://text"] });
    await call("grow");
    const events = await told(3);
    const grown = (await steps.tools()).flat().some((tool) => tool.name === "grown");
    await call("touch", { uri: "note://blob" });
    await call("touch", { uri: "note://text" });
    events.push(...(await told(1)));
    await call("touch_below", { uri: "note://text" });
    events.push(...(await told(1)));
    await listening.close();
    await call("shrink");
    return [listening.honoredFilter, events, grown];
  },
  listens_twice: async () => {
    const one = await client.listen({ resourceSubscriptions: ["note://text"] });
    const other = await client.listen({ resourceSubscriptions: ["note://blob"] });
    await call("touch", { uri: "note://text" });
    await call("touch", { uri: "note://blob" });
    const events = await told(2);
    await one.close();
    await other.close();
    return events.sort().reverse();
  },
  let_go: async () => {
    const listening = await client.listen({ toolsListChanged: true });
    await call("let_go");
    return await listening.closed;
  },
  folders: () => call("folders"),
  sample: async () => [await say("sample"), [...asked]],
  sample_refused: () => {
    answers.push(new sdk.ProtocolError(-1, "User rejected sampling request"));
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
    answers.push({ action: "accept" });
    return [await call("guarded"), [...asked]];
  },
  three: async () => [await say("three"), asked.length, await say("how_often", { what: "three" })],
  together: async () => [await say("together"), await say("how_often", { what: "together" })],
  many: async () => [await call("many", { to: 4 }), await say("how_often", { what: "many" })],
  too_many: () => call("many", { to: 20 }),
  by_hand: () => call("by_hand"),
  asking_prompt: () => client.getPrompt({ name: "asking" }),
  asking_note: () => client.readResource({ uri: "note://asking" }),
  refused_by_user: () => {
    answers.push(new sdk.ProtocolError(-1, "no"));
    return call("ask");
  },
  one_round: async () => {
    const first = await round("three");
    const again = await round("three", { requestState: first.requestState });
    const lies = await outcome(() => round("three", { requestState: `${first.requestState}x` }));
    const elsewhere = await outcome(() => round("together", { requestState: first.requestState }));
    return [first, again, lies, elsewhere];
  },
  headers: async () => {
    await client.listTools();
    posts.length = 0;
    const args = { region: "Açores", count: 7, fast: true, where: { zone: "a b" }, rest: "unseen" };
    return [await say("route", args), [...posts]];
  },
  moved_header: async () => {
    await client.listTools();
    await call("move_header", { to: "Area" });
    posts.length = 0;
    return [await say("route", { region: "north" }), [...posts]];
  },
};

const connection = transport();
await client.connect(connection);
const take = connection.onmessage;
connection.onmessage = (message, extra) => {
  // The SDK forgets whom to tell of progress when the answer is read in the same breath.
  if (message.method === "notifications/progress") progressed.push(message.params);
  take(message, extra);
};
const seen = {};
for (const [name, step] of Object.entries(steps)) {
  asked.length = answers.length = changes.length = 0;
  seen[name] = await outcome(step);
}
await client.close();
process.stdout.write(JSON.stringify(seen), () => process.exit());
