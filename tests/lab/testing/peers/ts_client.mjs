// A client made with the SDK for TypeScript: it lists the tools and calls the last one.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const from = createRequire(`${process.env.PEER_MODULES}/`);
const load = (name) => import(pathToFileURL(from.resolve(name)).href);
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");

const client = new Client({ name: "peer", version: "1" });
await client.connect(new StdioClientTransport({ command: process.argv[2], args: process.argv.slice(3) }));
const { tools } = await client.listTools();
if (tools.length) await client.callTool({ name: tools.at(-1).name, arguments: {} });
await client.close();
