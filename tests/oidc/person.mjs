// A person in front of a browser, but without one: opens the page of a login, confirms the code, logs in as NAME, and
// agrees, by following forms and redirections. Fails where a page is not what a person would go on from.
//
// node person.mjs URL NAME [deny]      (the authority's certificate in NODE_EXTRA_CA_CERTS)

const [first, name, deny] = process.argv.slice(2);
const cookies = new Map();

async function request(url, form) {
  const headers = { cookie: [...cookies].map(([key, value]) => `${key}=${value}`).join("; ") };
  const body = form && new URLSearchParams(form);
  const answer = await fetch(url, { method: form ? "POST" : "GET", headers, body, redirect: "manual" });
  for (const cookie of answer.headers.getSetCookie()) {
    const [pair] = cookie.split(";");
    const at = pair.indexOf("=");
    cookies.set(pair.slice(0, at), pair.slice(at + 1));
  }
  const next = answer.headers.get("location");
  if (next) return request(new URL(next, url).href);
  return { url, status: answer.status, page: await answer.text() };
}

function hiddenFields(page) {
  const fields = {};
  for (const [input] of page.matchAll(/<input[^>]*type="hidden"[^>]*>/g)) {
    const value = (attribute) => input.match(new RegExp(`${attribute}="([^"]*)"`))?.[1];
    if (value("name")) fields[value("name")] = value("value") ?? "";
  }
  return fields;
}

let { url, status, page } = await request(first);
for (let step = 0; step < 8; step += 1) {
  if (status >= 400) throw new Error(`${url}: status ${status}\n${page}`);
  const action = page.match(/<form[^>]*action="([^"]*)"/)?.[1];
  if (!action) {
    console.log(page.match(/<h1>(.*?)<\/h1>/)?.[1] ?? "done");
    process.exit(0);
  }
  const fields = hiddenFields(page);
  if (page.includes('name="login"')) Object.assign(fields, { login: name, password: "any" });
  if ("user_code" in fields) fields[deny ? "abort" : "confirm"] = "yes";
  ({ url, status, page } = await request(new URL(action, url).href, fields));
  if (deny && "user_code" in fields) process.exit(page.includes("interrupted") ? 0 : 1);
}
throw new Error(`this leads nowhere: ${url}\n${page}`);
