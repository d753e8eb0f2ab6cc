/* A guarded server made with the official SDK for TypeScript.

Usage: NODE_PATH=node_modules node ts_guarded.mjs sdk PORT
       NODE_PATH=node_modules node ts_guarded.mjs server PORT ISSUER

sdk: version 1, which has an authorization server of its own, in the same process; it lets everybody in at once.
server: version 2, which trusts another authorization server, and asks it about each token (as "notes-server").
Every request needs notes:read; in version 2 the tool "write" needs notes:write. It prints its URL once it listens. */

import { createServer } from "node:http";
import { createRequire } from "node:module";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const [version, port, issuer] = process.argv.slice(2);
const origin = `http://127.0.0.1:${port}`;
const url = new URL(`${origin}/mcp`);
const listening = () => console.log(url.href);
const said = (text) => ({ content: [{ type: "text", text }] });
const scopes = { requiredScopes: ["notes:read"], expectedResource: url };
console.warn = () => {};

if (version === "sdk") {
  const express = require("express");
  const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
  const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");
  const { mcpAuthRouter, getOAuthProtectedResourceMetadataUrl } = require("@modelcontextprotocol/sdk/server/auth/router.js");
  const { requireBearerAuth } = require("@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js");
  const { DemoInMemoryAuthProvider } = require("@modelcontextprotocol/sdk/examples/server/demoInMemoryOAuthProvider.js");

  const provider = new DemoInMemoryAuthProvider((asked) => asked?.href === url.href);
  const app = express();
  app.use(express.json());
  const scopesSupported = ["notes:read"];
  app.use(mcpAuthRouter({ provider, issuerUrl: new URL(origin), resourceServerUrl: url, scopesSupported }));
  const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(url);
  app.all("/mcp", requireBearerAuth({ verifier: provider, resourceMetadataUrl, ...scopes }), async (request, response) => {
    const server = new McpServer({ name: "guarded", version: "0" });
    server.registerTool("whoami", {}, ({ authInfo }) => said(`${authInfo.clientId !== ""} ${authInfo.scopes}`));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    response.on("close", () => transport.close());
    await server.connect(transport);
    await transport.handleRequest(request, response, request.body);
  });
  app.listen(Number(port), "127.0.0.1", listening);
} else {
  const sdk = require("@modelcontextprotocol/server");
  const { toNodeHandler } = require("@modelcontextprotocol/node");

  const oauthMetadata = await (await fetch(`${issuer}/.well-known/oauth-authorization-server`)).json();
  const basic = "Basic " + Buffer.from("notes-server:p%3As").toString("base64");
  const verifier = {
    async verifyAccessToken(token) {
      const headers = { authorization: basic };
      const body = new URLSearchParams({ token });
      const reply = await fetch(oauthMetadata.introspection_endpoint, { method: "POST", headers, body });
      const found = await reply.json();
      if (!found.active) throw new sdk.OAuthError(sdk.OAuthErrorCode.InvalidToken, "unknown");
      const granted = found.scope.split(" ");
      return { token, clientId: found.client_id, scopes: granted, expiresAt: found.exp, resource: new URL(found.aud),
               extra: { subject: found.sub } };
    },
  };
  const resourceMetadataUrl = sdk.getOAuthProtectedResourceMetadataUrl(url);
  const gate = sdk.requireBearerAuth({ verifier, resourceMetadataUrl, ...scopes });
  const make = () => {
    const server = new sdk.McpServer({ name: "guarded", version: "0" });
    const none = sdk.fromJsonSchema({ type: "object" });
    server.registerTool("whoami", { inputSchema: none }, (args, { http }) => {
      return said(`${http.authInfo.extra.subject} ${http.authInfo.scopes.toSorted().join(" ")}`);
    });
    const scopeChallenge = sdk.requireScopes("notes:write");
    server.registerTool("write", { inputSchema: none, scopeChallenge }, () => said("written"));
    return server;
  };
  const handler = sdk.createMcpHandler(make);
  const metadata = { oauthMetadata, resourceServerUrl: url, dangerouslyAllowInsecureIssuerUrl: true };
  const answer = async (request) => {
    const document = sdk.oauthMetadataResponse(request, metadata);
    if (document !== undefined) return document;
    const authInfo = await gate(request);
    return authInfo instanceof Response ? authInfo : handler.fetch(request, { authInfo });
  };
  createServer(toNodeHandler({ fetch: answer })).listen(Number(port), "127.0.0.1", listening);
}
