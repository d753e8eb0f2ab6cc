/* A client made with version 2 of the official SDK for TypeScript that uses every feature of the stateless era of a
server of ours, and prints what it saw.

Usage: NODE_PATH=node_modules node ts_stateless_client.mjs (URL | COMMAND [ARGUMENT ...])

It asks for the stateless era first ("auto"). One JSON object is printed, by the names of the steps: what each returned,
or {"error": ...}. */

import { createRequire } from "node:module";
import { answers, asked, changes, log, logs, noteProgress, progressed, roots, sample, tell, until } from "./ts_steps.mjs";
import { commonSteps, pages, printed, taken } from "./ts_steps.mjs";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const sdk = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const [command, ...args] = process.argv.slice(2);
const posts = [];

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
client.setRequestHandler("sampling/createMessage", sample);
client.setRequestHandler("roots/list", roots);
client.setRequestHandler("elicitation/create", ({ params }) => {
  asked.push(params);
  const answer = answers.shift();
  if (answer instanceof Error) throw answer;
  const content = params.message.includes("city") ? { city: "Porto" } : { name: "Ada" };
  return answer ?? { action: "accept", content };
});
client.setNotificationHandler("notifications/message", log);
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
    if (problem instanceof sdk.ProtocolError) return printed(problem);
    if (problem instanceof sdk.SdkError) return { refused: problem.code };
    return { failed: String(problem.stack) };
  }
}

// -- the steps

const call = (name, args = {}, options = undefined, more = {}) =>
  client.callTool({ name, arguments: args, ...more }, options);

const refusal = (words) => new sdk.ProtocolError(-1, words);
const { say, steps: common } = commonSteps(client, call, refusal);

const METHODS = { resourceTemplates: "resources/templates/list" };
const firstPage = (key) => client.request({ method: METHODS[key] ?? `${key}/list` });

/** The pages of a list: without a cursor the SDK puts all together itself. */
const paged = (ask, key) => pages((params) => (params === undefined ? firstPage(key) : ask(params)), key);

/** One round of a call, driven by hand. */
const round = (name, params = {}) =>
  client.request(
    { method: "tools/call", params: { name, arguments: {}, ...params } },
    sdk.withInputRequired(sdk.specTypeSchemas.CallToolResult),
    { allowInputRequired: true },
  );

const steps = {
  ...common,
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
  tools: () => paged((params) => client.listTools(params), "tools"),
  all_tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
  resources: () => paged((params) => client.listResources(params), "resources"),
  prompts: () => paged((params) => client.listPrompts(params), "prompts"),
  templates: () => paged((params) => client.listResourceTemplates(params), "resourceTemplates"),
  progress: async () => {
    await call("count", { to: 3 }, { onprogress: () => undefined });
    return progressed.map((step) => [step.progress, step.total, step.message]);
  },
  quiet: async () => {
    await call("shout");
    return [...logs];
  },
  loud: async () => {
    await call("shout", {}, undefined, { _meta: { [sdk.LOG_LEVEL_META_KEY]: "error" } });
    return [...logs];
  },
  cancel: async () => {
    const giveUp = new AbortController();
    const meta = { _meta: { [sdk.LOG_LEVEL_META_KEY]: "info" } };
    const ended = call("wait", {}, { signal: giveUp.signal }, meta).catch((problem) => problem);
    await until(() => logs.length > 0);
    giveUp.abort("no longer wanted");
    await ended;
    return await call("was_given_up");
  },
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
noteProgress(connection);
const seen = await taken(steps, outcome);
await client.close();
process.stdout.write(JSON.stringify(seen), () => process.exit());
