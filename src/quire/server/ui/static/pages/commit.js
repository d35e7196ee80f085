// One commit: who, when and why; what it did to every table; what it cost.
import { html, useState, useEffect, to, go, twin, api, plural, opened, bytes, count, told, say, again, moment } from "../lib.js";
import { Head, Time, Who, Delta, Tag, Commit, Branch, Wrong, Skeleton, DiffRows, Icon, Dialog } from "../parts.js";

export default function OneCommit({ data, context }) {
  const { commit: c, tags } = data;
  const o = opened();
  const [asked, ask] = useState(null);
  const names = Object.keys(c.tables);
  const parent = c.parents[0];
  const copies = {
    python: `${o.python}\ncommit = lake.show("${c.id}")\nprint(commit.author, commit.message, commit.tables)`,
    cli: `quire show ${o.lake} ${c.id}${o.on}`,
    curl: `curl '${o.url}/commits/${c.id}${o.query({})}'`,
  };
  const cost = c.cost;
  const phases = Object.entries(cost?.phases || {}).filter(([, s]) => s > 0);
  const longest = Math.max(...phases.map(([, s]) => s), 1e-9);
  return html`<${Head} title=${c.message || "no message"} copies=${copies} link=${to("commit", { id: c.id, branch: c.branch })} sub=${html`<${Who} name=${c.author} /> committed <span title=${moment(c.time)}><${Time} at=${c.time} /></span> to <${Branch} name=${c.branch} /> ${tags.map((name) => html`<${Tag} name=${name} commit=${c.id} />`)}`}>
      <a class="button" href=${to("tables", { at: c.id, branch: context.branch })}><${Icon} name="clock" />Look at this commit</a>
      ${context.write ? html`<button type="button" class="button" onClick=${() => ask("branch")}><${Icon} name="branch" />Branch</button><button type="button" class="button" onClick=${() => ask("tag")}><${Icon} name="tag" />Tag</button><button type="button" class="button" onClick=${() => ask("revert")} disabled=${!parent}><${Icon} name="undo" />Revert</button>` : null}<//>
    <div class="with-side"><div class="stack">${names.map((name, n) => html`<${Changed} key=${name} name=${name} change=${c.tables[name]} commit=${c} openFirst=${n === 0} />`)}
      ${!names.length ? html`<p class="panel pad muted">No table was touched.</p>` : null}</div>
      <aside class="stack"><section class="panel pad"><h2>Commit</h2><dl class="facts"><div><dt>id</dt><dd><code>${c.id}</code></dd></div><div><dt>parents</dt><dd>${c.parents.length ? c.parents.map((p) => html`<${Commit} id=${p.id} branch=${p.branch} /> `) : "none"}</dd></div>${c.reverts ? html`<div><dt>reverts</dt><dd><${Commit} id=${c.reverts} /></dd></div>` : null}${c.token ? html`<div><dt>token</dt><dd class="ellipsis"><code>${c.token}</code></dd></div>` : null}
        ${Object.entries(c.metadata).map(([k, v]) => html`<div><dt>${k}</dt><dd class="ellipsis" title=${v}>${v}</dd></div>`)}</dl>
        ${parent ? html`<a class="button small" href=${to("compare", { a: parent.id, b: c.id })}>Compare with its parent</a>` : null}</section>
      ${cost ? html`<section class="panel pad"><h2>What it cost</h2><div class="numbers"><div><b>${count(cost.total + Object.values(cost.external || {}).reduce((a, b) => a + b, 0))}</b><span>requests</span></div><div><b>${cost.hops}</b><span>hops</span></div><div><b>${(1000 * cost.seconds).toFixed(0)}</b><span>ms</span></div></div>
        ${phases.length ? html`<dl class="bars">${phases.map(([name, s]) => html`<div><dt>${name}</dt><dd><i style=${{ width: `${Math.max(1, (100 * s) / longest)}%` }}></i><span>${(1000 * s).toFixed(1)} ms</span></dd></div>`)}</dl>` : null}</section>` : null}</aside></div>
    ${asked ? html`<${Ask} what=${asked} commit=${c} close=${() => ask(null)} />` : null}`;
}

function Changed({ name, change, commit, openFirst }) {
  const small = change.added + change.removed <= 20_000;
  const [open, turn] = useState(openFirst && small && commit.parents.length > 0 && change.added + change.removed > 0);
  const [found, set] = useState(null);
  const [wrong, fail] = useState(null);
  const ask = () => { fail(null); twin("changed", { id: commit.id, table: name, branch: commit.branch, at: null }).then((s) => set(s.data), (e) => fail(told(e))); };
  useEffect(() => { if (open && !found) ask(); }, [open]);
  const diff = found?.table;
  return html`<section class="panel changed-table"><header class="panel-head"><button type="button" class="button quiet twist" aria-expanded=${open} aria-label=${`Rows of ${name}`} onClick=${() => turn(!open)} disabled=${!commit.parents.length}><${Icon} name=${open ? "down" : "right"} /></button><h2><a href=${to("table", { name, at: commit.id })}>${name}</a></h2>${change.ops.map((op) => html`<span class="chip plain">${op}</span>`)}<span class="fill"></span>${diff ? html`<${Delta} added=${diff.added} changed=${diff.changed} removed=${diff.removed} />` : html`<${Delta} added=${change.added} removed=${change.removed} />`}<span class="muted small">v${change.version ?? "—"}</span></header>
    ${open ? html`<div class="pad">${wrong ? html`<${Wrong} problem=${wrong} retry=${ask} />` : !found ? html`<${Skeleton} rows=${4} />` : diff ? html`${diff.columns && (diff.columns.added.length || diff.columns.removed.length || diff.columns.retyped.length) ? html`<p class="small">Columns: ${diff.columns.added.map((n) => html`<span class="chip added">+${n}</span>`)} ${diff.columns.removed.map((n) => html`<span class="chip removed">−${n}</span>`)} ${diff.columns.retyped.map((n) => html`<span class="chip changed">~${n}</span>`)}</p>` : null}${diff.rows && diff.added + diff.changed + diff.removed ? html`<${DiffRows} table=${name} rows=${diff.rows} keyNames=${found.key} limit=${diff.added > found.shown || diff.changed > found.shown || diff.removed > found.shown ? found.shown : 0} />` : html`<p class="muted small">No row differs.</p>`}` : html`<p class="muted small">No row differs: the table's files were rewritten.</p>`}</div>` : null}</section>`;
}

function Ask({ what, commit, close }) {
  const [name, type] = useState("");
  const [busy, work] = useState(false);
  const [wrong, fail] = useState(null);
  const words = { branch: ["Branch from here", "Create branch"], tag: ["Tag this commit", "Create tag"], revert: ["Revert this commit", "Revert"] }[what];
  const send = async (event) => {
    event.preventDefault();
    work(true);
    fail(null);
    try {
      if (what === "branch") { await api("POST", "branches", { name, at: commit.id, source: commit.branch }); close(); go(to("commits", { branch: name })); say(`Branch ${name} begins at ${commit.id}.`); }
      if (what === "tag") { await api("POST", "tags", { name, at: commit.id, branch: commit.branch }); close(); again(); say(`${commit.id} is called ${name} now.`); }
      if (what === "revert") { const done = await api("POST", `commits/${commit.id}/revert`, { branch: commit.branch, message: name || null }); close(); go(to("commit", { id: done.commit, branch: commit.branch })); say(`Reverted by ${done.commit}.`); }
    } catch (error) { fail(told(error)); work(false); }
  };
  return html`<${Dialog} title=${words[0]} close=${close}><form class="form" onSubmit=${send}>${what === "revert" ? html`<p>A new commit on <b>${commit.branch}</b> takes back what ${commit.id} did. Nothing is lost.</p>` : null}<label>${what === "revert" ? "Message (optional)" : "Name"}<input class="field" required=${what !== "revert"} autofocus value=${name} onInput=${(e) => type(e.target.value)} /></label>
    ${wrong ? html`<${Wrong} problem=${wrong} />` : null}<div class="actions"><button type="button" class="button" onClick=${close}>Cancel</button><button class="button primary" disabled=${busy}>${words[1]}</button></div></form><//>`;
}
