// A real OpenID Connect provider with the device flow, over HTTPS on a free port of this machine. Everybody may log in
// with any password; what is known of a person follows from the name. Prints the port when it listens.
//
// node provider.mjs CERTIFICATE.pem KEY.pem

import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";

import { Provider } from "oidc-provider";

const [certificate, key] = process.argv.slice(2).map((file) => readFileSync(file));
const server = createServer({ cert: certificate, key });
await new Promise((resolve) => server.listen(0, "localhost", resolve));
const { port } = server.address();

const signingKey = (algorithm, type, options) => ({
  ...generateKeyPairSync(type, options).privateKey.export({ format: "jwk" }),
  alg: algorithm,
  kid: algorithm,
  use: "sig",
});
const client = (client_id, algorithm, more) => ({
  client_id,
  grant_types: ["urn:ietf:params:oauth:grant-type:device_code"],
  response_types: [],
  redirect_uris: [],
  id_token_signed_response_alg: algorithm,
  token_endpoint_auth_method: "none",
  ...more,
});

const provider = new Provider(`https://localhost:${port}`, {
  clients: [
    client("rs256", "RS256"),
    client("es256", "ES256"),
    client("eddsa", "EdDSA"),
    client("confidential", "ES256", {
      client_secret: "a secret: with/signs",
      token_endpoint_auth_method: "client_secret_basic",
    }),
  ],
  jwks: {
    keys: [
      signingKey("RS256", "rsa", { modulusLength: 2048 }),
      signingKey("ES256", "ec", { namedCurve: "P-256" }),
      signingKey("EdDSA", "ed25519"),
    ],
  },
  enabledJWA: { idTokenSigningAlgValues: ["RS256", "ES256", "EdDSA"] },
  features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
  claims: { openid: ["sub"], profile: ["preferred_username", "groups"], email: ["email", "email_verified"] },
  // Else the claims would stand only where they can be fetched with an access token.
  conformIdTokenClaims: false,
  cookies: { keys: ["only a test"] },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      preferred_username: id,
      email: `${id}@example.org`,
      email_verified: id !== "mallory",
      groups: id === "alice" ? ["astronomers", "admins"] : ["astronomers"],
    }),
  }),
});
server.on("request", provider.callback());
console.log(port);
