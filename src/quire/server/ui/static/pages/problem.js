// What went wrong: denied, expired, not there, no connection, or a failure. Always with a way on.
import { html, useState, UI, to, again, parse } from "../lib.js";
import { Icon } from "../parts.js";

const LOOKS = { 401: ["lock", "Sign in"], 403: ["lock", "You may not see this"], 404: ["search", "There is no such thing"], 410: ["clock", "It was cleaned up"], 429: ["clock", "Too much at once"], 0: ["warn", "No connection"] };

function SignIn() {
  const [key, type] = useState("");
  const [wrong, set] = useState("");
  const send = async (event) => {
    event.preventDefault();
    const answer = await fetch(new URL("session", UI), { method: "POST", headers: { authorization: `Bearer ${key.trim()}` } });
    if (answer.ok) location.reload(); else set((await answer.json()).detail);
  };
  return html`<form class="signin" onSubmit=${send}><label for="key">Your key</label><input id="key" class="field" type="password" autocomplete="off" spellcheck="false" placeholder="qk_…" required value=${key} onInput=${(e) => type(e.target.value)} aria-describedby="wrong" />
    <p id="wrong" class="bad small" role="alert">${wrong}</p><button class="button primary">Sign in</button></form>`;
}

export default function Problem({ state }) {
  const said = state.problem;
  const [icon, words] = LOOKS[said.status] || ["warn", "Something went wrong"];
  const asksKey = said.status === 401 && /token/i.test(`${said.detail} ${said.next}`);
  const title = said.expired ? "Your session has expired" : said.status === 401 && !asksKey ? "This server is private" : words;
  const lake = state.context?.lake;
  const { page } = parse(location.href);
  const meant = /Did you mean '([^']+)'/.exec(said.next || "")?.[1];
  const repeat = html`<button type="button" class=${`button ${meant || (lake && (said.status === 404 || said.status === 400)) ? "" : "primary"}`} onClick=${() => (lake ? again() : location.reload())}>${[404, 403, 410].includes(said.status) ? "Look again" : "Try again"}</button>`;
  const next = meant && page === "table" ? html`<a class="button primary" href=${to("table", { name: meant })}>Open ${meant}</a>`
    : lake && said.status === 400 && page === "table" ? html`<a class="button primary" href=${to("table", { name: parse(location.href).params.name })}>Show all rows</a>`
    : lake && said.status === 410 ? html`<a class="button" href=${to("tables", { at: null })}>Newest commit</a>`
    : lake && said.status === 404 ? html`<a class="button primary" href=${to(page === "commit" ? "commits" : page === "request" ? "requests" : "tables", { at: null })}>${page === "commit" ? "All commits" : page === "request" ? "All requests" : "All tables"}</a>` : null;
  return html`<div class="state problem"><div class=${`picture ${said.status >= 500 || said.status === 0 ? "bad" : ""}`}><${Icon} name=${icon} size=${30} /></div><h1>${title}</h1>
    <p class="lead">${said.detail}</p>
    ${asksKey ? html`<${SignIn} />` : html`<div class="actions">${next}${repeat}<a class="button" href=${UI.href}>All lakes</a></div>${said.next ? html`<p class="next">${said.next}</p>` : null}`}
    ${said.request_id ? html`<p class="small muted">Request <code>${said.request_id}</code></p>` : null}</div>`;
}
