// Two sides beside each other: what a merge would do, or what differs between two commits.
import { html, useState, to, go, plural, opened, count, compact } from "../lib.js";
import { Head, Icon, Empty, Delta, Cost, Branch, Commit } from "../parts.js";

export const ACTIONS = { adopt: "taken over as it is", keep: "unchanged", merge: "merged row by row", schema: "columns merged", create: "new", drop: "dropped" };
export const OUTCOMES = { "up-to-date": ["done", "Nothing to merge"], "fast-forward": ["done", "Fast-forward"], merged: ["done", "Merges"] };

export function Outcome({ plan }) {
  const open = plan.open;
  return open ? html`<span class="chip conflict"><${Icon} name="warn" size=${12} />${plural(open, "conflict")}</span>` : html`<span class="chip ${(OUTCOMES[plan.outcome] || ["done"])[0]}"><${Icon} name="check" size=${12} />${(OUTCOMES[plan.outcome] || ["", plan.outcome])[1]}</span>`;
}

export function PlanTables({ plan, a }) {
  if (!plan.tables.length) return html`<p class="pad muted">No table is touched.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Tables of the merge"><table class="list"><thead><tr><th scope="col">Table</th><th scope="col">What happens</th><th scope="col" class="num">Rows</th><th scope="col" class="num">Conflicts</th><th scope="col">Note</th></tr></thead><tbody>
    ${plan.tables.map((t) => html`<tr><th scope="row"><a href=${to("table", { name: t.table, branch: a, at: null })}>${t.table}</a></th><td><span class="chip ${t.open ? "conflict" : t.action}">${t.action}</span> <span class="muted">${t.open ? "waits for you" : ACTIONS[t.action] || ""}</span></td><td class="num"><${Delta} added=${t.added || 0} changed=${t.changed || 0} removed=${t.removed || 0} /></td><td class="num">${t.conflicts ? html`${t.conflicts - t.open}/${t.conflicts}` : html`<span class="muted">0</span>`}</td><td class="muted">${t.note}</td></tr>`)}</tbody></table></div>`;
}

export default function Compare({ data, context }) {
  const names = data.branches.map((b) => b.name);
  const [a, setA] = useState(data.a || "main");
  const [b, setB] = useState(data.b || names.find((n) => n !== "main") || "");
  const o = opened();
  const look = (event) => { event.preventDefault(); go(to("compare", { a, b })); };
  const plan = data.plan;
  const copies = data.kind === "merge" ? {
    python: `${o.python.replace(/\.branch\(.*\)$/, "")}\nplan = lake.branch("${data.a}").merge("${data.b}", preview=True)\nprint(plan)`,
    cli: `quire merge ${o.lake} ${data.b} --into ${data.a} --preview`,
    curl: `curl '${o.url}/merges' -H 'content-type: application/json' -d '{"source": "${data.b}", "into": "${data.a}", "preview": true}'`,
  } : data.kind === "diff" ? { python: `${o.python}\nprint(lake.diff("${data.a}", "${data.b}"))`, cli: `quire diff ${o.lake} ${data.a} ${data.b}${o.on}`, curl: `curl '${o.url}/diff/${data.a}/${data.b}${o.query({})}'` } : null;
  return html`<${Head} title="Compare" copies=${copies} link=${data.kind === "none" ? null : to("compare", plan ? { a: data.a, b: data.b } : { a: data.a, b: data.b })} sub=${plan ? html`what merging <${Branch} name=${data.b} /> into <${Branch} name=${data.a} /> would do` : "two branches, or two commits"} />
    <form class="sides panel" onSubmit=${look}><label>Into<input class="field" list="names" value=${a} onInput=${(e) => setA(e.target.value)} required /></label><button type="button" class="button quiet" aria-label="Swap the sides" onClick=${() => { setA(b); setB(a); }}>⇄</button><label>From<input class="field" list="names" value=${b} onInput=${(e) => setB(e.target.value)} required /></label><datalist id="names">${names.map((n) => html`<option value=${n} />`)}</datalist><button class="button primary">Compare</button></form>
    ${plan ? html`<section class="panel"><div class="panel-head"><${Outcome} plan=${plan} /><span class="muted">base ${plan.bases.join(", ")} · ours ${plan.ours} · theirs ${plan.theirs}</span><span class="fill"></span>
        ${context.write && plan.outcome !== "up-to-date" ? html`<a class="button" href=${to("requests", { source: data.b, into: data.a, branch: null })}>Request a review</a><a class="button primary" href=${to("conflicts", { source: data.b, into: data.a, branch: null })}><${Icon} name="merge" />${plan.open ? "Resolve and merge" : "Merge"}</a>` : null}</div><${PlanTables} plan=${plan} a=${data.a} /></section>` : null}
    ${data.diff ? html`<section class="panel"><div class="panel-head"><h2><${Commit} id=${data.diff.before} /> to <${Commit} id=${data.diff.after} /></h2><span class="muted">${plural(data.diff.tables.length, "table")}</span></div>${data.diff.tables.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="Tables that differ"><table class="list"><thead><tr><th scope="col">Table</th><th scope="col">What</th><th scope="col" class="num">Rows</th><th scope="col">Columns</th></tr></thead><tbody>${data.diff.tables.map((t) => html`<tr><th scope="row"><a href=${to("table", { name: t.table, at: data.diff.after })}>${t.table}</a></th><td><span class="chip plain">${t.kind}</span></td><td class="num"><${Delta} added=${t.added} changed=${t.changed} removed=${t.removed} /></td><td>${[...(t.columns?.added || []).map((n) => `+${n}`), ...(t.columns?.removed || []).map((n) => `−${n}`)].join(" ")}</td></tr>`)}</tbody></table></div>` : html`<p class="pad muted">They do not differ.</p>`}</section>` : null}
    ${data.kind === "none" ? html`<${Empty} icon="merge" title=${names.length > 1 ? "Choose two sides" : "There is one branch only"} code=${names.length > 1 ? null : `quire branch create ${o.lake} trial`}>${names.length > 1 ? "Branches are compared as a merge would see them: since their common base." : "Make a branch, change something on it, and compare it with main."}<//>` : null}`;
}
