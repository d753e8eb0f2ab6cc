/* Clients made with version 2 of the official SDK for TypeScript that meet servers of each era in each way that they
know.

Usage: NODE_PATH=node_modules node ts_meet.mjs '{NAME: [URL | COMMAND, ARGUMENT ...], ...}'

One JSON object is printed: for each name and mode ("auto", "legacy", "2026-07-28") the version that was agreed on and
what a call said, or the code of the error. */

import { createRequire } from "node:module";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const MODES = { auto: "auto", legacy: "legacy", "2026-07-28": { pin: "2026-07-28" } };

async function meet([command, ...args], mode) {
  const client = new Client({ name: "sdk", version: "2" }, { versionNegotiation: { mode } });
  const stdio = { command, args, env: process.env, stderr: "ignore" };
  const url = command.startsWith("http://");
  try {
    await client.connect(url ? new StreamableHTTPClientTransport(new URL(command)) : new StdioClientTransport(stdio));
    const result = await client.callTool({ name: "add", arguments: { a: 2, b: 40 } });
    return [client.getNegotiatedProtocolVersion(), result.content[0].text];
  } catch (problem) {
    return { error: problem.code ?? String(problem) };
  } finally {
    await client.close();
  }
}

const met = {};
for (const [name, target] of Object.entries(JSON.parse(process.argv[2]))) {
  met[name] = {};
  for (const [mode, how] of Object.entries(MODES)) met[name][mode] = await meet(target, how);
}
process.stdout.write(JSON.stringify(met), () => process.exit());
