/* A client of the official SDK for TypeScript that gets in by OAuth, and asks for more when it needs more.

Usage: NODE_PATH=node_modules node ts_login.mjs (sdk | client) URL

sdk: version 1; client: version 2. The browser is played: it signs in as ada, presses "allow", and brings back where it is
sent. It prints the scopes of each authorization request, and what the tools say. */

import { createRequire } from "node:module";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const [version, url] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } =
  version === "client"
    ? require("@modelcontextprotocol/client")
    : {
        ...require("@modelcontextprotocol/sdk/client/index.js"),
        ...require("@modelcontextprotocol/sdk/client/streamableHttp.js"),
        ...require("@modelcontextprotocol/sdk/client/auth.js"),
      };

const kept = {};
let back; // where the browser came back to

async function visit(where) {
  console.log("scope", where.searchParams.get("scope"));
  const page = await fetch(where);
  const [, ticket] = /name=ticket value="([^"]*)"/.exec(await page.text());
  const body = new URLSearchParams({ ticket, user: "ada", password: "pw", answer: "allow" });
  const cookie = page.headers.get("set-cookie").split(";")[0];
  const answer = await fetch(where.origin + where.pathname, { method: "POST", body, headers: { cookie }, redirect: "manual" });
  back = new URL(answer.headers.get("location")).searchParams;
  if (back.get("state") !== kept.state) throw new Error("the state is another one");
}

const provider = {
  redirectUrl: "http://localhost:3030/callback",
  clientMetadata: {
    client_name: "SDK",
    redirect_uris: ["http://localhost:3030/callback"],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "client_secret_post",
  },
  state: () => (kept.state = String(Math.random())),
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  // Version 1 steps up with the refresh token if there is one, which cannot widen a grant (typescript-sdk, issue 2255).
  saveTokens: ({ refresh_token, ...tokens }) => {
    kept.tokens = version === "client" ? { refresh_token, ...tokens } : tokens;
  },
  redirectToAuthorization: visit,
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => void (kept.discovery = state),
  discoveryState: () => kept.discovery,
};

/** Does something over a connection; if that leads to a login, once more over another one. */
async function authorized(job) {
  for (let left = 3; ; left -= 1) {
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
    const client = new Client({ name: "sdk", version: "0" });
    try {
      await client.connect(transport);
      return await job(client);
    } catch (problem) {
      if (!(problem instanceof UnauthorizedError) || left === 0) throw problem;
      if (version === "client") await transport.finishAuth(back);
      else await transport.finishAuth(back.get("code"));
    } finally {
      await client.close();
    }
  }
}

for (const name of ["whoami", "write"]) {
  const result = await authorized((client) => client.callTool({ name, arguments: {} }));
  console.log(name, result.content[0].text);
}
