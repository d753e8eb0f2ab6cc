/* A certified authorization server (oidc-provider), which knows one MCP server.

Usage: NODE_PATH=node_modules node as.mjs PORT RESOURCE

It prints its issuer once it listens. In the environment, all optional:

  AS_TOKENS     "jwt" (default) or "opaque"
  AS_LIFETIME   seconds that an access token lasts
  AS_CLIENTS    clients that are registered beforehand, as JSON
  AS_DOCUMENTS  client id metadata documents by URL, as JSON: these are not fetched
  AS_NONCE      set: proofs (DPoP) must have a nonce */

import { generateKeyPairSync, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";

// Only `require` looks where NODE_PATH says.
const require = createRequire(import.meta.url);
const { default: Provider, errors } = require("oidc-provider");

const [port, resource] = process.argv.slice(2);
const { AS_TOKENS = "jwt", AS_LIFETIME = "600", AS_CLIENTS = "[]", AS_DOCUMENTS = "{}", AS_NONCE } = process.env;
const issuer = `http://127.0.0.1:${port}`;
const documents = JSON.parse(AS_DOCUMENTS);
const key = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" });
const algorithms = ["ES256", "RS256"];

console.info = console.warn = () => {}; // It says at length that it is not in production.

const provider = new Provider(issuer, {
  jwks: { keys: [{ ...key, alg: "ES256", use: "sig", kid: "key" }] },
  clients: JSON.parse(AS_CLIENTS),
  clientDefaults: { id_token_signed_response_alg: "ES256" },
  clientAuthMethods: ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"],
  enabledJWA: {
    idTokenSigningAlgValues: ["ES256"],
    requestObjectSigningAlgValues: ["ES256"],
    userinfoSigningAlgValues: ["ES256"],
    introspectionSigningAlgValues: ["ES256"],
    clientAuthSigningAlgValues: algorithms,
    dPoPSigningAlgValues: ["ES256"],
  },
  scopes: ["openid", "offline_access", "notes:read", "notes:write"],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (ctx, client) => client.grantTypeAllowed("refresh_token"),
  cookies: { keys: [randomBytes(16).toString("hex")] },
  ttl: { AccessToken: Number(AS_LIFETIME), ClientCredentials: Number(AS_LIFETIME), Grant: 3600, Session: 3600,
         Interaction: 600, RefreshToken: 3600, IdToken: 600 },
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    clientCredentials: { enabled: true },
    introspection: { enabled: true, allowedPolicy: async () => true },
    clientIdMetadataDocument: { enabled: true, ack: "draft-02" },
    dPoP: { enabled: true, nonceSecret: randomBytes(32), requireNonce: () => AS_NONCE !== undefined },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, asked) => {
        if (asked !== resource) throw new errors.InvalidTarget();
        return { scope: "notes:read notes:write", audience: resource, accessTokenFormat: AS_TOKENS,
                 jwt: { sign: { alg: "ES256" } } };
      },
    },
  },
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  fetch: async (url, options) => {
    const document = documents[String(url)];
    if (document === undefined) return fetch(url, options);
    return Response.json(document, { headers: { "cache-control": "no-store" } });
  },
});
provider.on("server_error", (ctx, problem) => console.log("server_error", problem.stack));
createServer(provider.callback()).listen(Number(port), "127.0.0.1", () => console.log(issuer));
