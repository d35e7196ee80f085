// Merge requests: who wants what merged, and how it stands.
import { html, useState, useEffect, to, go, api, plural, opened, told, say } from "../lib.js";
import { Head, Icon, Empty, Time, Who, Branch, Dialog, Wrong, useList } from "../parts.js";

export default function Requests({ data, context, params }) {
  const [asking, ask] = useState(!!params.source);
  const o = opened();
  const state = params.state || "open";
  const here = useList(data.requests.length, (n) => go(to("request", { number: data.requests[n].number, branch: null })));
  const copies = { python: `${o.python}\nfor request in lake.requests.list("${state}"):\n    print(request)`, cli: `quire request list ${o.lake} --state ${state}`, curl: `curl '${o.url}/requests?state=${state}'` };
  return html`<${Head} title="Requests" copies=${copies} sub="Branches that somebody wants merged, with reviews"><a class="button" href=${to("compare", {})}>Compare</a>${context.write ? html`<button type="button" class="button primary" onClick=${() => ask(true)}><${Icon} name="plus" />New request</button>` : null}<//>
    <nav class="tabs" aria-label="State of requests">${["open", "merged", "closed"].map((s) => html`<a role="link" class="tab" href=${to("requests", { state: s })} aria-current=${s === state ? "true" : undefined}>${s[0].toUpperCase() + s.slice(1)} <small>${data.counts[s]}</small></a>`)}</nav>
    ${data.requests.length ? html`<ol class="panel rows requests">${data.requests.map((r, n) => html`<li data-at=${n === here} class=${n === here ? "active" : ""}><span class="muted num">#${r.number}</span><div class="main"><a href=${to("request", { number: r.number, branch: null })}>${r.title}</a><div class="small muted"><${Who} name=${r.author} /> · <${Time} at=${r.time} /></div></div><span><${Branch} name=${r.source} /> <span class="muted">into</span> <${Branch} name=${r.target} /></span>
      ${r.reviews.some((v) => v.verdict === "approve") ? html`<span class="chip approve"><${Icon} name="check" size=${12} />approved</span>` : null}${r.reviews.some((v) => v.verdict === "object") ? html`<span class="chip object">objection</span>` : null}<span class="chip ${r.state}">${r.state}</span></li>`)}</ol>`
      : html`<${Empty} icon="requests" title=${`No ${state} requests`} code=${state === "open" ? `${o.python}\nlake.requests.open("trial", "Try the new scores")` : null}>${state === "open" ? "Work on a branch, then ask for it to be merged. Others review it here, row by row." : "There is none in this state."}<//>`}
    ${asking ? html`<${New} branches=${data.branches} from=${params.source} into=${params.into} close=${() => ask(false)} />` : null}`;
}

function New({ branches, from, into, close }) {
  const [form, set] = useState({ source: from || branches.find((b) => b.name !== "main")?.name || "", into: into || "main", title: "", text: "" });
  const [wrong, fail] = useState(null);
  const field = (name) => ({ value: form[name], onInput: (e) => set({ ...form, [name]: e.target.value }) });
  const send = async (event) => {
    event.preventDefault();
    try { const made = await api("POST", "requests", form); say(`Request #${made.number} is open.`); close(); go(to("request", { number: made.number, branch: null })); } catch (error) { fail(told(error)); }
  };
  return html`<${Dialog} title="New request" close=${close}><form class="form" onSubmit=${send}><label>Title<input class="field" required autofocus ...${field("title")} /></label><div class="two"><label>From<select class="field" ...${field("source")}>${branches.map((b) => html`<option>${b.name}</option>`)}</select></label><label>Into<select class="field" ...${field("into")}>${branches.map((b) => html`<option>${b.name}</option>`)}</select></label></div><label>What it does<textarea class="field" rows="4" ...${field("text")}></textarea></label>${wrong ? html`<${Wrong} problem=${wrong} />` : null}<div class="actions"><button type="button" class="button" onClick=${close}>Cancel</button><button class="button primary">Open the request</button></div></form><//>`;
}
