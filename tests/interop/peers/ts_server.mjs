/* A server made with the official SDK for TypeScript that offers every feature of the session era, for our client.

Usage: NODE_PATH=node_modules node ts_server.mjs http | json | stateless | resumable | sse [PORT]

It prints its URL, and then a line for each request, such as "DELETE 200". */

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const { Server } = require("@modelcontextprotocol/sdk/server/index.js");
const { SSEServerTransport } = require("@modelcontextprotocol/sdk/server/sse.js");
const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const [way, port = "0"] = process.argv.slice(2);
const PIXEL = "iVBORw0KGgo=";
const SOUND = "UklGRgAAAABXQVZF";
const PAGE = 4;
const NOTHING = { type: "object" };
const NUMBERS = {
  type: "object",
  properties: { a: { type: "integer" }, b: { type: "integer" } },
  required: ["a", "b"],
};
const FORECAST = {
  type: "object",
  properties: { city: { type: "string" }, degrees: { type: "number" } },
  required: ["city", "degrees"],
};
const FORM = {
  type: "object",
  properties: {
    name: { type: "string", title: "Name", minLength: 1, maxLength: 20 },
    mail: { type: "string", format: "email" },
    age: { type: "integer", minimum: 0, maximum: 150 },
    agrees: { type: "boolean", default: false },
    seat: { type: "string", enum: ["window", "aisle"], enumNames: ["Window", "Aisle"] },
  },
  required: ["name", "age"],
};
const CHOICES = {
  type: "object",
  properties: {
    one: {
      type: "string",
      oneOf: [
        { const: "a", title: "First" },
        { const: "b", title: "Second" },
      ],
    },
    some: { type: "array", items: { type: "string", enum: ["x", "y", "z"] }, minItems: 1, maxItems: 2 },
    titled: {
      type: "array",
      items: {
        anyOf: [
          { const: "q", title: "Q" },
          { const: "r", title: "R" },
        ],
      },
    },
    word: { type: "string", default: "mellon" },
  },
  required: ["one", "some"],
};

const text = (words) => ({ type: "text", text: words });
const said = (words) => ({ content: [text(words)] });
const saidJson = (value) => said(JSON.stringify(value));
const failure = (code, message, data) => Object.assign(new Error(message), { code, data });

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

const blocks = () => [
  { ...text("hello"), annotations: { audience: ["user"], priority: 0.5 } },
  { type: "image", data: PIXEL, mimeType: "image/png" },
  { type: "audio", data: SOUND, mimeType: "audio/wav" },
  { type: "resource", resource: { uri: "note://text", text: "a note" } },
  { type: "resource", resource: { uri: "note://blob", blob: PIXEL } },
  { type: "resource_link", uri: "note://text", name: "text", mimeType: "text/plain" },
];

/** Begin a conversation. */
async function converse(transport) {
  const subscribed = new Set();
  const visited = new Set();
  const levels = [];
  const rootsTold = new Happening();
  let givenUp = new Happening();
  let goingOn = new Happening();
  let grown = false;
  let opening;

  const server = new Server(
    { name: "theirs", version: "9.8.7", title: "Theirs" },
    {
      instructions: "Offers everything.",
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        completions: {},
        logging: {},
        experimental: { "example.com/trial": { on: true } },
      },
    },
  );
  const on = (schema, answer) => server.setRequestHandler(schema, answer);

  // -- tools

  const log = (extra, level, data, logger) =>
    extra.sendNotification({ method: "notifications/message", params: { level, data, logger } });
  const question = { role: "user", content: text("What is the capital of France?") };
  const createMessage = (extra, params) =>
    extra.sendRequest({ method: "sampling/createMessage", params }, types.CreateMessageResultWithToolsSchema);
  const elicit = (extra, params) =>
    extra.sendRequest({ method: "elicitation/create", params }, types.ElicitResultSchema);

  const calls = {
    add: async ({ a, b }) => said(String(a + b)),
    weather: async ({ city = "Lisbon" }) => {
      const forecast = { city, degrees: 21.5 };
      return { content: [text(JSON.stringify(forecast))], structuredContent: forecast };
    },
    wrong_weather: async () => ({ content: [], structuredContent: { city: 1 } }),
    everything: async () => ({ content: blocks() }),
    fail: async () => ({ ...said("it did not work"), isError: true }),
    refuse: async () => {
      throw failure(4242, "not for you", { why: "a test" });
    },
    count: async ({ to }, extra) => {
      const progressToken = extra._meta?.progressToken;
      for (let progress = 1; progressToken !== undefined && progress <= to; progress++) {
        const params = { progressToken, progress, total: to, message: `number ${progress}` };
        await extra.sendNotification({ method: "notifications/progress", params });
      }
      return said(`counted to ${to}`);
    },
    wait: async (_, extra) => {
      givenUp = new Happening();
      await log(extra, "info", "waiting");
      await new Promise((tell) => extra.signal.addEventListener("abort", tell));
      givenUp.set();
      return said("not reached");
    },
    was_given_up: async () => said((await givenUp.within()) ? "yes" : "no"),
    ping_back: async () => saidJson(await server.ping()),
    whoami: async (_, extra) => saidJson({ revision: agreed(), initialize: opening, meta: extra._meta }),
    shout: async (_, extra) => {
      for (const level of ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]) {
        await log(extra, level, { said: level }, "shouter");
      }
      return said("shouted");
    },
    asked_levels: async () => saidJson(levels),
    sample: async (_, extra) =>
      saidJson(
        await createMessage(extra, {
          messages: [question],
          maxTokens: 50,
          systemPrompt: "Be brief.",
          temperature: 0.5,
          stopSequences: ["\n\n"],
          modelPreferences: { hints: [{ name: "small" }], speedPriority: 0.9 },
        }),
      ),
    sample_with_tools: async (_, extra) => {
      if (server.getClientCapabilities().sampling.tools === undefined) throw failure(-32602, "No tools in sampling");
      const tools = [{ name: "lookup", inputSchema: NOTHING }];
      const asked = { role: "user", content: text("Look up tea.") };
      const toolChoice = { mode: "auto" };
      const first = await createMessage(extra, { messages: [asked], maxTokens: 50, tools, toolChoice });
      const content = [first.content].flat();
      const use = content.find((block) => block.type === "tool_use");
      const found = { type: "tool_result", toolUseId: use.id, content: [text(`${use.input.word}: a drink`)] };
      const messages = [asked, { role: "assistant", content }, { role: "user", content: [found] }];
      return saidJson({ first, second: await createMessage(extra, { messages, maxTokens: 50, tools }) });
    },
    ask: async ({ choices }, extra) =>
      saidJson(await elicit(extra, { message: "Who are you?", requestedSchema: choices ? CHOICES : FORM })),
    visit: async (_, extra) => {
      const page = { mode: "url", message: "Please sign in.", url: "https://example.com/sign-in" };
      const answer = await elicit(extra, { ...page, elicitationId: "visit-1" });
      if (answer.action === "accept") await server.createElicitationCompletionNotifier("visit-1")();
      return saidJson(answer);
    },
    guarded: async () => {
      if (visited.has("guarded")) return said("allowed");
      visited.add("guarded");
      const page = { mode: "url", message: "Allow it.", url: "https://example.com/allow", elicitationId: "visit-2" };
      throw new types.UrlElicitationRequiredError([page]);
    },
    folders: async () => saidJson((await server.listRoots()).roots),
    told_of_roots: async () => said((await rootsTold.within()) ? "yes" : "no"),
    grow: async () => {
      grown = !grown;
      await server.sendToolListChanged();
      await server.sendResourceListChanged();
      await server.sendPromptListChanged();
      return said(grown ? "grown" : "shrunk");
    },
    touch: async ({ uri }) => {
      if (subscribed.has(uri)) await server.sendResourceUpdated({ uri });
      return said("touched");
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
  const agreed = () =>
    types.SUPPORTED_PROTOCOL_VERSIONS.includes(opening.protocolVersion)
      ? opening.protocolVersion
      : types.LATEST_PROTOCOL_VERSION;

  const page = (key, items, params) => {
    const start = Number(params?.cursor ?? 0);
    const end = start + PAGE;
    return { [key]: items.slice(start, end), ...(end < items.length ? { nextCursor: String(end) } : {}) };
  };
  const tool = (name) => ({
    name,
    description: name,
    inputSchema: name === "add" ? NUMBERS : NOTHING,
    ...(name === "add" ? { title: "Adder", annotations: { readOnlyHint: true } } : {}),
    ...(name.endsWith("weather") ? { outputSchema: FORECAST } : {}),
  });

  on(types.ListToolsRequestSchema, ({ params }) =>
    page("tools", [...Object.keys(calls), ...(grown ? ["grown"] : [])].map(tool), params),
  );
  on(types.CallToolRequestSchema, async ({ params }, extra) => {
    if (!Object.hasOwn(calls, params.name)) throw failure(-32602, `Unknown tool: ${params.name}`);
    return await calls[params.name](params.arguments ?? {}, extra);
  });

  // -- resources

  const note = {
    uri: "note://text",
    name: "text",
    title: "A note",
    mimeType: "text/plain",
    size: 6,
    annotations: { audience: ["assistant"], priority: 1.0 },
    icons: [{ src: "https://example.com/icon.png", mimeType: "image/png", sizes: ["48x48"] }],
  };
  on(types.ListResourcesRequestSchema, ({ params }) => {
    const many = [...Array(10).keys()].map((number) => ({ uri: `note://many/${number}`, name: `many${number}` }));
    const extra = grown ? [{ uri: "note://grown", name: "grown" }] : [];
    return page("resources", [note, { uri: "note://blob", name: "blob" }, ...many, ...extra], params);
  });
  on(types.ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [{ uriTemplate: "note://user/{name}", name: "of_user", mimeType: "text/plain" }],
  }));
  on(types.ReadResourceRequestSchema, ({ params: { uri } }) => {
    if (uri === "note://text") return { contents: [{ uri, mimeType: "text/plain", text: "a note" }] };
    if (uri === "note://blob") return { contents: [{ uri, mimeType: "image/png", blob: PIXEL }] };
    if (!uri.startsWith("note://user/")) throw failure(-32002, "Resource not found", { uri });
    return { contents: [{ uri, text: `note of ${uri.slice("note://user/".length)}` }] };
  });
  on(types.SubscribeRequestSchema, ({ params }) => (subscribed.add(params.uri), {}));
  on(types.UnsubscribeRequestSchema, ({ params }) => (subscribed.delete(params.uri), {}));

  // -- prompts, completion, logging, roots

  on(types.ListPromptsRequestSchema, ({ params }) => {
    const greet = { name: "name", description: "who is greeted", required: true };
    const many = [...Array(5).keys()].map((number) => ({ name: `many${number}` }));
    const prompts = [
      { name: "greet", title: "Greeting", arguments: [greet, { name: "tone" }] },
      { name: "talk" },
      ...many,
      ...(grown ? [{ name: "grown" }] : []),
    ];
    return page("prompts", prompts, params);
  });
  on(types.GetPromptRequestSchema, ({ params }) => {
    if (params.name === "talk") return { messages: blocks().map((content) => ({ role: "assistant", content })) };
    if (params.name !== "greet") throw failure(-32602, `Unknown prompt: ${params.name}`);
    const words = `Greet ${params.arguments.name} in a ${params.arguments.tone ?? "plain"} tone.`;
    return { description: "Greet.", messages: [{ role: "user", content: text(words) }] };
  });
  on(types.CompleteRequestSchema, ({ params }) => {
    const { value } = params.argument;
    if (params.ref.type === "ref/resource") {
      const values = [...Array(100).keys()].map((number) => `${value}${number}`);
      return { completion: { values, total: 150, hasMore: true } };
    }
    const names = ["Ada", "Adele", "Bob"].filter((name) => name.startsWith(value));
    return { completion: { values: names.map((name) => name + (params.context?.arguments?.tone ?? "")) } };
  });
  on(types.SetLevelRequestSchema, ({ params }) => (levels.push(params.level), {}));
  server.setNotificationHandler(types.RootsListChangedNotificationSchema, () => rootsTold.set());

  await server.connect(transport);
  const take = transport.onmessage;
  transport.onmessage = (message, extra) => {
    // As it came: the handlers get what the SDK makes of it.
    if (message.method === "initialize") opening = message.params;
    take(message, extra);
  };
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
      sessionIdGenerator: way === "stateless" ? undefined : randomUUID,
      onsessioninitialized: (assigned) => sessions.set(assigned, transport),
      onsessionclosed: (ended) => sessions.delete(ended),
      enableJsonResponse: way === "json",
      ...(way === "resumable" ? { eventStore: new Events(), retryInterval: 50 } : {}),
    });
    await converse(transport);
  }
  await transport.handleRequest(request, response);
}

async function events(request, response, url) {
  if (url.pathname === "/sse" && request.method === "GET") {
    const transport = new SSEServerTransport("/messages", response);
    sessions.set(transport.sessionId, transport);
    await converse(transport);
  } else if (url.pathname === "/messages" && request.method === "POST") {
    const transport = sessions.get(url.searchParams.get("sessionId"));
    if (transport === undefined) return refuse(response, 404, "Session not found");
    await transport.handlePostMessage(request, response);
  } else {
    refuse(response, url.pathname === "/sse" ? 405 : 404, "No such endpoint");
  }
}

const listening = createServer((request, response) => {
  const url = new URL(request.url, "http://127.0.0.1");
  response.on("finish", () => console.log(`${request.method} ${response.statusCode}`));
  const answered = way === "sse" ? events(request, response, url) : streamable(request, response);
  answered.catch((problem) => {
    console.log(problem.stack);
    if (!response.headersSent) refuse(response, 500, String(problem));
  });
});
listening.listen(Number(port), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${listening.address().port}${way === "sse" ? "/sse" : "/mcp"}`);
});
