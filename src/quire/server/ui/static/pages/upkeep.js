// Upkeep: how the lake is, what keeps old commits and staged files, and what can be done.
import { html, useState, useEffect, api, count, bytes, plural, opened, told, say, again, shown, to } from "../lib.js";
import { Head, Icon, Time, Wrong, Who, Commit } from "../parts.js";

const VERBS = {
  optimize: ["Optimize", "Merge small files and extend indexes to new rows."],
  cleanup: ["Clean up", "Delete files and log entries that nothing needs any more. Commits of the last week stay."],
  recover: ["Recover", "Finish the work of writers that died."],
  verify: ["Verify", "Read everything and check that it is whole."],
};
const DRY = new Set(["optimize", "cleanup"]);
const LOADS = { small_fragments: "small files", unbackfilled: "commits that plain readers do not see yet", uncheckpointed: "commits since the last checkpoint" };

export default function Upkeep({ data, context }) {
  const s = data.status;
  const o = opened();
  const [jobs, set] = useState(data.jobs);
  const [wrong, fail] = useState(null);
  const running = jobs.some((j) => j.state === "running");
  useEffect(() => {
    if (!running) return undefined;
    const look = async () => {
      const now = await Promise.all(jobs.map((j) => (j.state === "running" ? api("GET", `jobs/${j.id}`).then((found) => ({ ...found, dry: j.dry }), () => j) : j)));
      set(now);
      if (!now.some((j) => j.state === "running")) again();
    };
    const timer = setInterval(look, 500);
    return () => clearInterval(timer);
  }, [jobs]);
  useEffect(() => set(data.jobs), [data.jobs]);
  const run = async (verb, dry) => {
    fail(null);
    try {
      const job = await api("POST", `maintenance/${verb}`, { dry_run: dry });
      set([{ ...job, dry }, ...jobs]);
      say(`${VERBS[verb][0]} ${dry ? "looks what it would do" : "runs"}.`);
    } catch (error) { fail(told(error)); }
  };
  const copies = { python: `${o.python}\nprint(lake.status())\nlake.optimize()\nlake.cleanup(dry_run=True)`, cli: `quire status ${o.lake}${o.on}`, curl: `curl '${o.url}/status'` };
  return html`<${Head} title="Upkeep" copies=${copies} sub=${html`${plural(s.tables, "table")} · ${plural(s.rows, "row")} · ${bytes(s.bytes)} · head <${Commit} id=${s.head} />`} />
    ${wrong ? html`<${Wrong} problem=${wrong} />` : null}
    <div class="with-side"><div class="stack">
      <${Health} s=${s} data=${data} />
      <section class="panel"><div class="panel-head"><h2>Jobs of this server</h2></div>${jobs.length ? html`<ol class="rows">${jobs.map((j) => html`<${Job} key=${j.id} j=${j} />`)}</ol>` : html`<p class="pad muted">None yet. What runs elsewhere is not listed here.</p>`}</section>
      <${Kept} data=${data} /></div>
      <aside class="stack">${Object.entries(VERBS).map(([verb, [name, what]]) => html`<section class="panel pad verb"><h2>${name}</h2><p class="muted small">${what}</p><div class="actions">
          ${DRY.has(verb) ? html`<button type="button" class="button small" aria-label=${`Dry run: ${name}`} disabled=${running || !context.admin} onClick=${() => run(verb, true)}>Dry run</button>` : null}
          <button type="button" class="button small primary" aria-label=${`Run: ${name}`} disabled=${running || !context.admin} onClick=${() => run(verb, false)}>Run</button></div></section>`)}
        ${!context.admin ? html`<p class="muted small"><${Icon} name="lock" size=${12} /> Upkeep takes the role admin, on a server that may write.</p>` : null}</aside></div>`;
}

function Health({ s, data }) {
  const facts = [
    ["oldest slot that is kept (floor)", count(s.floor)], ["last checkpoint", s.checkpoint === null ? "none yet" : `slot ${count(s.checkpoint)}`], ["tables to backfill", count(s.pending_backfill.length)],
    ["tokens remembered", count(s.tokens.opaque + s.tokens.streams)], ["offers waiting", count(s.offers.waiting)], ["recoveries on record", count(data.recoveries)], ["failures of background work", count(data.status.background_failures)],
  ];
  const gauge = ([name, load]) => {
    const part = Math.min(1, load.now / Math.max(1, load.bound));
    return html`<div><dt>${LOADS[name] || name.replaceAll("_", " ")}${load.table ? html` <span class="muted">most in ${load.table}</span>` : null}</dt>
      <dd><span class=${`gauge ${part > 0.8 ? "bad" : part > 0.4 ? "warn" : ""}`}><i style=${{ width: `${100 * part}%` }}></i></span><span class="num">${count(load.now)} <small class="muted">of ${count(load.bound)}</small></span></dd></div>`;
  };
  return html`<section class="panel pad"><h2>Health</h2><dl class="gauges">${Object.entries(s.load).map(gauge)}</dl><dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd class="num">${value}</dd></div>`)}</dl></section>`;
}

const Holders = ({ title, none, head, rows }) => html`<h3>${title}</h3>${rows.length ? html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table class="list"><thead><tr>${head.map((words) => html`<th scope="col">${words}</th>`)}</tr></thead><tbody>${rows}</tbody></table></div>` : html`<p class="muted small">${none}</p>`}`;

/** What keeps files from cleanup beside the newest commits. */
function Kept({ data }) {
  const late = (end) => new Date(end) < Date.now();
  return html`<section class="panel pad kept"><h2>What keeps files</h2>
    <${Holders} title="Writers" none="Nobody has a transaction open for long." head=${["Writer", "Since", "Last sign"]} rows=${data.writers.map((w) => html`<tr><th scope="row"><${Who} name=${w.author} /></th><td><${Time} at=${w.since} /></td><td><${Time} at=${w.renewed} /></td></tr>`)} />
    <${Holders} title="Leases" none="No reader holds a commit." head=${["Reader", "Commit", "Last sign", "Ends"]} rows=${data.leases.map((l) => html`<tr><th scope="row"><${Who} name=${l.author} /></th><td>${l.branch ? html`<${Commit} id=${l.commit} branch=${l.branch} />` : html`<code>${l.commit}</code> <span class="muted">of another branch</span>`}</td><td><${Time} at=${l.renewed} /></td><td>${late(l.ends) ? html`<span class="chip changed">ran out</span> ` : null}<${Time} at=${l.ends} /></td></tr>`)} />
    <${Holders} title="Tags" none="There are no tags." head=${["Tag", "Commit"]} rows=${data.tags.map((t) => html`<tr><th scope="row">${t.name}</th><td><a class="commit-id" href=${to("tables", { at: t.commit })}>${t.commit}</a></td></tr>`)} />
    <${Holders} title="Consumers of changes" none="Nobody has a place in the feed." head=${["Consumer", "Where it is"]} rows=${data.consumers.map((c) => html`<tr><th scope="row">${c.name}</th><td class="ellipsis">${shown(Object.fromEntries(Object.entries(c).filter(([n]) => !["name", "cursor"].includes(n))))}</td></tr>`)} /></section>`;
}

function Job({ j }) {
  return html`<li><span class="chip ${j.state}">${j.state}</span><span class="main">${VERBS[j.verb]?.[0] || j.verb}${j.dry || j.result?.dry_run ? html` <span class="muted">dry run</span>` : null}</span><${Who} name=${j.actor} /><${Time} at=${j.began} />
    ${j.error ? html`<p class="bad">${j.error.message}</p>` : null}${j.result ? html`<${Result} of=${j.result} />` : null}</li>`;
}

/** What a job says it did: numbers in words, and all of it below. */
function Result({ of }) {
  const plain = Object.entries(of).filter(([name, value]) => name !== "dry_run" && (typeof value === "number" || typeof value === "string"));
  const sizes = Object.entries(of).filter(([, value]) => value && typeof value === "object" && Object.keys(value).length);
  const write = (name, value) => (name === "bytes" ? bytes(value) : typeof value === "number" ? count(value) : value);
  return html`<div class="result-of"><dl class="numbers">${plain.filter(([, value]) => typeof value === "number").map(([name, value]) => html`<div><dd><b>${write(name, value)}</b></dd><dt>${name.replaceAll("_", " ")}</dt></div>`)}</dl>
    ${sizes.length || plain.length ? html`<details><summary>All of it</summary><pre tabindex="0">${JSON.stringify(of, null, 1)}</pre></details>` : null}</div>`;
}
