/* What the clients made with each version of the official SDK for TypeScript share: what they note of a conversation,
how they answer, and the steps that both take. */

const WAIT = 10_000;
const watching = new Set();

export const asked = [];
export const logs = [];
export const changes = [];
export const answers = [];
export const progressed = [];

export function tell() {
  for (const look of watching) look();
}

/** Wait until a condition holds, looking at each message of the server. */
export async function until(happened) {
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

// -- what the server asks and tells

export function sample({ params }) {
  asked.push(params);
  if (answers.length > 0) throw answers.shift();
  const from = { role: "assistant", model: "small-1" };
  if (params.tools && params.messages.length === 1) {
    const use = { type: "tool_use", id: "use-1", name: "lookup", input: { word: "tea" } };
    return { ...from, content: [use], stopReason: "toolUse" };
  }
  return { ...from, content: { type: "text", text: "Paris" }, stopReason: "endTurn" };
}

export const roots = () => ({ roots: [{ uri: "file:///work", name: "Work" }] });

export function log({ params }) {
  logs.push(params);
  tell();
}

/** Note progress: the SDK forgets whom to tell of it when the answer is read in the same breath. */
export function noteProgress(transport) {
  const take = transport.onmessage;
  transport.onmessage = (message, extra) => {
    if (message.method === "notifications/progress") progressed.push(message.params);
    take(message, extra);
  };
}

// -- the steps

export async function pages(ask, key) {
  const found = [];
  for (let cursor; ; ) {
    const page = await ask(cursor === undefined ? undefined : { cursor });
    found.push(page[key]);
    cursor = page.nextCursor;
    if (cursor === undefined) return found;
  }
}

/** An error of the protocol, as the steps print it. */
export function printed({ code, message, data }) {
  return { error: { code, message: message.replace(/^MCP error -?\d+: /, ""), data: data ?? null } };
}

/** What each step returned, or how it failed. */
export async function taken(steps, outcome) {
  const seen = {};
  for (const [name, step] of Object.entries(steps)) {
    asked.length = answers.length = changes.length = logs.length = progressed.length = 0;
    seen[name] = await outcome(step);
  }
  return seen;
}

/** The steps that a client of either version takes: `call` calls a tool, and `refusal` makes an error of the protocol. */
export function commonSteps(client, call, refusal) {
  /** The JSON in the first block of a result; of one that failed, all of it. */
  async function say(name, args = {}) {
    const result = await call(name, args);
    return result.isError ? result : JSON.parse(result.content[0].text);
  }

  const greet = { type: "ref/prompt", name: "greet" };
  const ofUser = { type: "ref/resource", uri: "note://user/{name}" };
  const steps = {
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
    read_text: () => client.readResource({ uri: "note://text" }),
    read_blob: () => client.readResource({ uri: "note://blob" }),
    read_template: () => client.readResource({ uri: "note://user/ada" }),
    read_nothing: () => client.readResource({ uri: "note://nowhere" }),
    greet: () => client.getPrompt({ name: "greet", arguments: { name: "Ada", tone: "warm" } }),
    greet_nobody: () => client.getPrompt({ name: "greet", arguments: {} }),
    talk: () => client.getPrompt({ name: "talk" }),
    unknown_prompt: () => client.getPrompt({ name: "no such prompt" }),
    complete_prompt: () =>
      client.complete({ ref: greet, argument: { name: "name", value: "ad" }, context: { arguments: { tone: "!" } } }),
    complete_template: () => client.complete({ ref: ofUser, argument: { name: "name", value: "u" } }),
    folders: () => call("folders"),
    sample: async () => [await say("sample"), [...asked]],
    sample_refused: () => {
      answers.push(refusal("User rejected sampling request"));
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
  };
  return { say, steps };
}
