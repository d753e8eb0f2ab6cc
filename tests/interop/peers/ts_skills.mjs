/* Skills by version 2 of the official SDK for TypeScript.

Usage: NODE_PATH=node_modules node ts_skills.mjs server FOLDER      serves the skills below a folder over stdio
       NODE_PATH=node_modules node ts_skills.mjs client COMMAND [ARGUMENT ...]    prints what it read, as one object */

import { createRequire } from "node:module";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const [role, ...given] = process.argv.slice(2);

async function serve(folder) {
  const sdk = require("@modelcontextprotocol/server");
  const { serveStdio } = require("@modelcontextprotocol/server/stdio");
  const { loadSkills } = require("@modelcontextprotocol/server/ext/skills/node");
  const catalog = await loadSkills(folder);
  await serveStdio(() => {
    const server = new sdk.McpServer({ name: "ts", version: "1" });
    catalog.attach(server);
    return server;
  });
}

async function ask(command, args) {
  const { Client } = require("@modelcontextprotocol/client");
  const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
  const { SkillsClient } = require("@modelcontextprotocol/client/ext/skills");
  const client = new Client({ name: "ts", version: "1" }, { versionNegotiation: { mode: "auto" } });
  await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }));
  const skills = new SkillsClient(client);
  const { skills: listed } = await skills.list();
  const read = {};
  for (const skill of listed) {
    for (const each of skill.resources) {
      const path = decodeURIComponent(each.uri.slice(skill.uri.length - "SKILL.md".length));
      read[each.uri] = (await skills.read(skill, path)).verified;
    }
  }
  const folder = listed[0].uri.slice(0, -"/SKILL.md".length);
  const children = (await skills.readDirectory(folder)).resources.map((child) => child.name);
  console.log(JSON.stringify({ supported: skills.supported, directories: skills.directoryRead, read, children }));
  await client.close();
}

await (role === "server" ? serve(given[0]) : ask(given[0], given.slice(1)));
