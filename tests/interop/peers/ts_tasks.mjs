/* Tasks of 2025-11-25 by the official SDK for TypeScript, over stdio, in both roles, each of which hosts tasks.

Usage: NODE_PATH=node_modules node ts_tasks.mjs server
       NODE_PATH=node_modules node ts_tasks.mjs client COMMAND [ARGUMENT...]     prints one line for each step */

import { createRequire } from "node:module";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");
const { InMemoryTaskStore, InMemoryTaskMessageQueue } = require("@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const form = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
const text = (result) => result.content.map((block) => block.text).join();

async function last(stream) {
  const seen = [];
  for await (const message of stream) {
    seen.push(message.type);
    if (message.type === "error") throw message.error;
    if (message.type === "result") return { seen, result: message.result };
  }
}

async function serve() {
  const options = { taskStore: new InMemoryTaskStore(), taskMessageQueue: new InMemoryTaskMessageQueue() };
  const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
  const server = new McpServer({ name: "ts", version: "1" }, { capabilities: { tasks }, ...options });
  const tool = (name, work) =>
    server.experimental.tasks.registerToolTask(name, { description: name, execution: { taskSupport: "required" } }, {
      createTask: async (extra) => {
        const task = await extra.taskStore.createTask({ ttl: 60_000, pollInterval: 50 });
        const content = (said) => ({ content: [{ type: "text", text: said }] });
        work(task.taskId, extra)
          .then((said) => extra.taskStore.storeTaskResult(task.taskId, "completed", content(said)))
          .catch((problem) => extra.taskStore.storeTaskResult(task.taskId, "failed", { ...content(`${problem}`), isError: true }));
        return { task };
      },
      getTask: (extra) => extra.taskStore.getTask(extra.taskId),
      getTaskResult: (extra) => extra.taskStore.getTaskResult(extra.taskId),
    });
  tool("book", async (taskId) => {
    const answer = await server.server.elicitInput({ message: "Name?", requestedSchema: form }, { relatedTask: { taskId } });
    return `booked for ${answer.content.name}`;
  });
  tool("steps", async (taskId, extra) => {
    for (const progress of [1, 2])
      await extra.sendNotification({ method: "notifications/progress",
        params: { progressToken: extra._meta.progressToken, progress, _meta: { [types.RELATED_TASK_META_KEY]: { taskId } } } });
    return "stepped";
  });
  tool("ask", async () => {
    const stream = server.server.experimental.tasks.elicitInputStream(
      { mode: "form", message: "Name?", requestedSchema: form }, { task: { ttl: 60_000 } });
    const { seen, result } = await last(stream);
    return `${seen.includes("taskCreated")} ${result.content.name}`;
  });
  await server.connect(new StdioServerTransport());
}

async function call(command, args) {
  const tasks = { list: {}, cancel: {}, requests: { elicitation: { create: {} }, sampling: { createMessage: {} } } };
  const capabilities = { elicitation: { form: {} }, sampling: {}, tasks };
  // Without a queue of messages: with one, this SDK never sends the answer to a question that belongs to a task.
  const client = new Client({ name: "ts", version: "1" }, { capabilities, taskStore: new InMemoryTaskStore() });
  client.setRequestHandler(types.ElicitRequestSchema, async (request, extra) => {
    const [name] = Object.keys(request.params.requestedSchema.properties);
    const answer = { action: "accept", content: { [name]: "Ann" } };
    if (!request.params.task) return answer;
    const task = await extra.taskStore.createTask({ ttl: 60_000, pollInterval: 50 });
    setTimeout(() => extra.taskStore.storeTaskResult(task.taskId, "completed", answer), 20);
    return { task };
  });
  await client.connect(new StdioClientTransport({ command, args, env: process.env }));
  await client.listTools();
  const stream = (name, args = {}, more = {}) =>
    client.experimental.tasks.callToolStream({ name, arguments: args }, types.CallToolResultSchema, { task: { ttl: 60_000 }, ...more });
  const asked = await last(stream("book", { city: "Oslo" }));
  console.log("book", asked.seen.includes("taskCreated"), text(asked.result));
  const told = [];
  await last(stream("steps", {}, { onprogress: (report) => told.push(report.progress) }));
  console.log("progress", told.join());
  console.log("hosted", text(await client.callTool({ name: "ask_client" })));
  for await (const message of stream("wait")) {
    if (message.type !== "taskCreated") continue;
    await client.experimental.tasks.cancelTask(message.task.taskId);
    const { tasks } = await client.experimental.tasks.listTasks();
    console.log("cancelled", tasks.find((each) => each.taskId === message.task.taskId).status);
    break;
  }
  await client.close();
  process.exit(0); // the store's timers go on
}

await (process.argv[2] === "server" ? serve() : call(process.argv[3], process.argv.slice(4)));
