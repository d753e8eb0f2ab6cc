/* A view by the official library for apps: it does what a document does in a host, without a browser.

Usage: NODE_PATH=node_modules node ts_app.mjs      messages of JSON-RPC, a line each, on stdin and stdout; on its end, or
                                                   when it has done everything, what it saw is the last line of stderr */

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const { App } = await import(pathToFileURL(require.resolve("@modelcontextprotocol/ext-apps/app-with-deps")));

class Lines {
  async start() {
    createInterface({ input: process.stdin }).on("line", (line) => this.onmessage?.(JSON.parse(line)));
  }
  async send(message) {
    process.stdout.write(JSON.stringify(message) + "\n");
  }
  async close() {
    this.onclose?.();
  }
}

const seen = {};
const able = { availableDisplayModes: ["inline", "fullscreen"] };
const app = new App({ name: "ts app", version: "1" }, able, { autoResize: false });
const told = new Promise((resolve) => {
  app.ontoolinput = (params) => (seen.input = params.arguments);
  app.ontoolresult = (params) => resolve((seen.result = params.content[0].text));
});
const changed = new Promise((resolve) => (app.onhostcontextchanged = (params) => resolve((seen.theme = params.theme))));
app.onteardown = async (params) => {
  // The reason is not handed on.
  seen.teardown = params;
  console.error(JSON.stringify(seen));
  return {};
};

const failing = async (what) => {
  try {
    return await what();
  } catch (problem) {
    return problem.code ?? String(problem);
  }
};

await app.connect(new Lines());
seen.host = app.getHostVersion().name;
seen.mode = app.getHostContext().displayMode;
await told;
seen.called = (await app.callServerTool({ name: "refresh", arguments: {} })).content[0].text;
seen.secret = await failing(() => app.callServerTool({ name: "secret", arguments: {} }));
seen.read = (await app.readServerResource({ uri: "note://here" })).contents[0].text;
seen.fullscreen = (await app.requestDisplayMode({ mode: "fullscreen" })).mode;
seen.link = await failing(() => app.openLink({ url: "https://example.com/" }));
seen.message = await failing(() => app.sendMessage({ role: "user", content: [{ type: "text", text: "Hello" }] }));
await app.updateModelContext({ structuredContent: { city: "Porto" } });
await app.sendSizeChanged({ width: 300, height: 200 });
await app.sendLog({ level: "info", data: "done" });
await changed;
