// A real OpenID provider, for a test: node issuer.mjs REDIRECT_URI PORT SKEW_SECONDS. It writes its address when it listens.
import { createServer } from "node:http";
import { generateKeyPairSync } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [redirect, port, skew] = process.argv.slice(2);
const now = Date.now;
Date.now = () => now() + 1000 * Number(skew);
// The packages are in the folder of the process, which is not this file's.
const found = createRequire(`${process.cwd()}/`).resolve("oidc-provider");
const { Provider } = await import(pathToFileURL(found).href);

const pair = generateKeyPairSync("rsa", { modulusLength: 2048 });
const key = { ...pair.privateKey.export({ format: "jwk" }), kid: `key-${process.pid}`, use: "sig", alg: "RS256" };
const people = { anna: ["ops"], otto: ["visitors"] };
const server = createServer().listen(Number(port), "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      { client_id: "shunter", client_secret: "a secret & more of it", redirect_uris: [redirect] },
      { client_id: "ci", client_secret: "ci's", grant_types: ["client_credentials"], redirect_uris: [], response_types: [] },
    ],
    claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
    conformIdTokenClaims: false,
    cookies: { keys: ["of the test"] },
    extraTokenClaims: () => ({ preferred_username: "ci", groups: ["staff"] }),
    features: {
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context, name) => ({ scope: "", audience: name.slice(4), accessTokenFormat: "jwt", jwt: { sign: { alg: "RS256" } } }),
      },
    },
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id, preferred_username: id, groups: people[id] ?? [] }) }),
    jwks: { keys: [key] },
    pkce: { required: () => true },
    ttl: { AccessToken: 600, AuthorizationCode: 60, ClientCredentials: 600, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
