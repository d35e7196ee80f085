// One merge request: what it would do, what was said of it, and merging it.
import { html, useState, to, go, api, post, plural, opened, told, say, again } from "../lib.js";
import { Head, Icon, Time, Who, Branch, Wrong, Commit, Delta } from "../parts.js";
import { Outcome, PlanTables } from "./compare.js";

const SAID = { approve: ["check", "approved"], object: ["warn", "objected"], comment: ["more", "commented"] };

export default function Request({ data, context }) {
  const { request: r, plan, problem } = data;
  const [text, type] = useState("");
  const [wrong, fail] = useState(null);
  const [busy, work] = useState(false);
  const o = opened();
  const act = async (what, words) => { work(true); fail(null); try { const done = await what(); say(words(done)); type(""); await again(); } catch (error) { fail(told(error)); } work(false); };
  const review = (verdict) => act(() => api("POST", `requests/${r.number}/reviews`, { verdict, text }), () => `You ${SAID[verdict][1]}.`);
  const merge = () => act(() => post("merge", { request: r.number }), (done) => `Merged as ${done.commit}.`);
  const copies = { python: `${o.python}\nlake.requests.merge(${r.number})`, cli: `quire request merge ${o.lake} ${r.number}`, curl: `curl '${o.url}/requests/${r.number}'` };
  const last = Object.values(Object.fromEntries(r.reviews.filter((v) => v.verdict !== "comment").map((v) => [v.author, v])));
  const objected = last.some((v) => v.verdict === "object");
  return html`<${Head} title=${html`${r.title} <span class="muted">#${r.number}</span>`} copies=${copies} link=${location.href} kind=${html`<span class="chip ${r.state}">${r.state}</span>`} sub=${html`<${Who} name=${r.author} /> wants <${Branch} name=${r.source} /> in <${Branch} name=${r.target} /> · <${Time} at=${r.time} />`}>
      ${r.state === "open" && context.write ? html`${plan?.total ? html`<a class="button" href=${to("conflicts", { request: r.number, branch: null })}>Resolve ${plural(plan.total, "conflict")}</a>` : null}<button type="button" class="button primary" disabled=${busy || !plan || plan.open > 0 || objected || plan.outcome === "up-to-date"} title=${objected ? "There are objections" : plan?.open ? "Resolve the conflicts first" : ""} onClick=${merge}><${Icon} name="merge" />Merge</button>` : null}<//>
    ${wrong ? html`<${Wrong} problem=${wrong} />` : null}
    <div class="with-side"><div class="stack">
      ${r.text ? html`<section class="panel pad prose">${r.text.split("\n").map((line) => html`<p>${line}</p>`)}</section>` : null}
      ${r.merged ? html`<section class="panel pad good"><${Icon} name="check" /> Merged as <${Commit} id=${r.merged} branch=${r.target} />.</section>` : null}
      ${plan ? html`<section class="panel"><div class="panel-head"><${Outcome} plan=${plan} />${plan.total && !plan.open ? html`<span class="muted">${plural(plan.total, "conflict")} resolved</span>` : null}<span class="fill"></span><a class="small" href=${to("compare", { a: r.target, b: r.source, branch: null })}>Compare</a></div><${PlanTables} plan=${plan} a=${r.target} /></section>` : null}
      ${problem ? html`<${Wrong} problem=${problem} />` : null}
      <section class="panel"><div class="panel-head"><h2>Reviews</h2></div><ol class="talk">${r.reviews.map((v) => html`<li class=${v.verdict}><span class="chip ${v.verdict}"><${Icon} name=${SAID[v.verdict][0]} size=${12} />${SAID[v.verdict][1]}</span><div><${Who} name=${v.author} /> <span class="small muted"><${Time} at=${v.time} /> at ${v.head}</span>${v.text ? html`<p>${v.text}</p>` : null}</div></li>`)}${!r.reviews.length ? html`<li class="muted">Nobody has said anything yet.</li>` : null}</ol>
        ${context.write && r.state === "open" ? html`<form class="form pad" onSubmit=${(e) => { e.preventDefault(); review("comment"); }}><label><span class="hidden">Your review</span><textarea class="field" rows="3" placeholder="What do you think of it?" value=${text} onInput=${(e) => type(e.target.value)}></textarea></label><div class="actions"><button class="button" disabled=${busy || !text.trim()}>Comment</button><button type="button" class="button danger" disabled=${busy} onClick=${() => review("object")}>Object</button><button type="button" class="button primary" disabled=${busy} onClick=${() => review("approve")}><${Icon} name="check" />Approve</button></div></form>` : null}</section></div>
      <aside class="stack"><section class="panel pad"><h2>Request</h2><dl class="facts"><div><dt>source</dt><dd><${Branch} name=${r.source} /></dd></div><div><dt>target</dt><dd><${Branch} name=${r.target} /></dd></div>${plan ? html`<div><dt>base</dt><dd>${plan.bases.map((b) => html`<code>${b}</code> `)}</dd></div>` : null}<div><dt>resolutions kept</dt><dd class="num">${r.resolutions.length}</dd></div></dl>
        ${context.write && r.state === "open" ? html`<button type="button" class="button small" onClick=${() => act(() => api("POST", `requests/${r.number}/close`, { text }), () => "Closed.")}>Close without merging</button>` : null}${context.write && r.state === "closed" ? html`<button type="button" class="button small" onClick=${() => act(() => api("POST", `requests/${r.number}/reopen`), () => "Open again.")}>Open again</button>` : null}</section>
        ${data.commits.length ? html`<section class="panel"><div class="panel-head"><h2>${plural(data.commits.length, "commit")}</h2></div><ol class="feed">${data.commits.map((c) => html`<li><a href=${to("commit", { id: c.id, branch: c.branch })}><span class="message">${c.message || "no message"}</span><span class="small muted">${c.id} · ${c.author}</span></a></li>`)}</ol></section>` : null}</aside></div>`;
}
