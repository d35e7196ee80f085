// Upkeep: how the lake is, and what can be done about it.
import { html, useState, useEffect, to, api, count, bytes, plural, opened, told, say, again, shown } from "../lib.js";
import { Head, Icon, Time, Wrong, Who, Commit } from "../parts.js";

const VERBS = { optimize: ["Optimize", "Merge small files and extend indexes to new rows."], cleanup: ["Clean up", "Delete files and log entries that nothing needs any more. Commits of the last week stay."], recover: ["Recover", "Finish the work of writers that died."], verify: ["Verify", "Read everything and check that it is whole."] };

export default function Upkeep({ data, context }) {
  const s = data.status;
  const o = opened();
  const [jobs, set] = useState(data.jobs);
  const [wrong, fail] = useState(null);
  const running = jobs.some((j) => j.state === "running");
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(async () => { const now = await Promise.all(jobs.map((j) => (j.state === "running" ? api("GET", `jobs/${j.id}`).catch(() => j) : j))); set(now); if (!now.some((j) => j.state === "running")) again(); }, 500);
    return () => clearInterval(timer);
  }, [jobs]);
  useEffect(() => set(data.jobs), [data.jobs]);
  const run = async (verb, dry) => { fail(null); try { const job = await api("POST", `maintenance/${verb}`, { dry_run: dry }); set([{ ...job, dry }, ...jobs]); say(`${VERBS[verb][0]} ${dry ? "looks what it would do" : "runs"}.`); } catch (error) { fail(told(error)); } };
  const loads = Object.entries(s.load);
  const copies = { python: `${o.python}\nprint(lake.status())\nlake.optimize()\nlake.cleanup(dry_run=True)`, cli: `quire status ${o.lake}${o.on}`, curl: `curl '${o.url}/status'` };
  const names = { small_fragments: "small files", unbackfilled: "commits that plain readers do not see yet", uncheckpointed: "commits since the last checkpoint" };
  return html`<${Head} title="Upkeep" copies=${copies} sub=${html`${plural(s.tables, "table")} · ${plural(s.rows, "row")} · ${bytes(s.bytes)} · head <${Commit} id=${s.head} />`} />
    ${wrong ? html`<${Wrong} problem=${wrong} />` : null}
    <div class="with-side"><div class="stack">
      <section class="panel pad"><h2>Health</h2><dl class="gauges">${loads.map(([name, l]) => { const part = Math.min(1, l.now / Math.max(1, l.bound)); return html`<div><dt>${names[name] || name.replaceAll("_", " ")}${l.table ? html` <span class="muted">most in ${l.table}</span>` : null}</dt><dd><span class=${`gauge ${part > 0.8 ? "bad" : part > 0.4 ? "warn" : ""}`}><i style=${{ width: `${Math.max(1, 100 * part)}%` }}></i></span><span class="num">${count(l.now)} <small class="muted">of ${count(l.bound)}</small></span></dd></div>`; })}</dl>
        <dl class="facts"><div><dt>oldest slot that is kept (floor)</dt><dd class="num">${count(s.floor)}</dd></div><div><dt>last checkpoint</dt><dd>${s.checkpoint === null ? "none yet" : shown(s.checkpoint)}</dd></div><div><dt>tables to backfill</dt><dd class="num">${s.pending_backfill.length}</dd></div><div><dt>tokens remembered</dt><dd class="num">${count(s.tokens.opaque + s.tokens.streams)}</dd></div><div><dt>offers waiting</dt><dd class="num">${s.offers.waiting}</dd></div><div><dt>recoveries on record</dt><dd class="num">${data.recoveries}</dd></div><div><dt>failures of background work</dt><dd class="num">${s.background_failures}</dd></div></dl></section>
      <section class="panel"><div class="panel-head"><h2>Jobs of this server</h2></div>${jobs.length ? html`<ol class="rows">${jobs.map((j) => html`<li><span class="chip ${j.state}">${j.state}</span><span class="main">${VERBS[j.verb]?.[0] || j.verb}${j.dry || j.result?.dry_run ? html` <span class="muted">dry run</span>` : null}</span><${Who} name=${j.actor} /><${Time} at=${j.began} />${j.error ? html`<p class="bad">${j.error.message}</p>` : null}${j.result ? html`<details><summary>Result</summary><pre tabindex="0">${JSON.stringify(j.result, null, 1)}</pre></details>` : null}</li>`)}</ol>` : html`<p class="pad muted">None yet. What it does elsewhere is not listed here.</p>`}</section></div>
      <aside class="stack">${Object.entries(VERBS).map(([verb, [name, what]]) => html`<section class="panel pad verb"><h2>${name}</h2><p class="muted small">${what}</p><div class="actions">${verb === "cleanup" || verb === "optimize" ? html`<button type="button" class="button small" disabled=${running || !context.admin} onClick=${() => run(verb, true)}>Dry run</button>` : null}<button type="button" class="button small primary" disabled=${running || !context.admin} onClick=${() => run(verb, false)}>Run</button></div></section>`)}
        ${data.consumers.length ? html`<section class="panel pad"><h2>Consumers of changes</h2><ul class="facts">${data.consumers.map((c) => html`<li><b>${c.name}</b> <span class="muted small">${shown(c)}</span></li>`)}</ul></section>` : null}</aside></div>`;
}
