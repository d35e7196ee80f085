// Conflicts, row by row: take a side, a cell of each, or edit. Then merge.
import { html, useState, useEffect, useMemo, useRef, to, go, post, plural, shown, say, told, opened } from "../lib.js";
import { Head, Icon, Empty, Wrong, Branch, Dialog } from "../parts.js";
import { Outcome, PlanTables } from "./compare.js";

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const columnsOf = (c) => c.columns.length ? c.columns : [...new Set([...Object.keys(c.base || {}), ...Object.keys(c.ours || {}), ...Object.keys(c.theirs || {})])].filter((n) => !same(c.ours?.[n], c.theirs?.[n]));

/** A text that was typed, as a value like those that stand beside it. */
export function typed(text, c, name) {
  const like = [c.ours, c.theirs, c.base].map((r) => r?.[name]).find((v) => v !== null && v !== undefined);
  if (typeof like === "number") { const n = Number(text); if (text.trim() === "" || Number.isNaN(n)) throw new Error(`${name} is a number.`); return n; }
  if (typeof like === "boolean") { if (!/^(true|false)$/i.test(text.trim())) throw new Error(`${name} is true or false.`); return /^true$/i.test(text.trim()); }
  if (like !== undefined && typeof like === "object") return JSON.parse(text);
  return text;
}

/** What is sent for one conflict: a side, or values of its columns. */
export function resolution(c, choice) {
  if (!choice) return null;
  const about = { table: c.table, fingerprint: c.fingerprint, key: c.key };
  if (choice.whole) return { ...about, resolution: choice.whole };
  const names = columnsOf(c);
  if (!names.length || names.some((n) => !choice.cells?.[n])) return null;
  const sides = new Set(names.map((n) => choice.cells[n].from));
  if (sides.size === 1 && !sides.has("edit")) return { ...about, resolution: [...sides][0] };
  return { ...about, resolution: "values", merged: Object.fromEntries(names.map((n) => { const cell = choice.cells[n]; return [n, cell.from === "edit" ? cell.value : c[cell.from]?.[n] ?? null]; })) };
}

export default function Conflicts({ data, context }) {
  const { plan, request } = data;
  const name = `resolutions ${context.lake} ${data.source} ${data.into} ${plan.ours} ${plan.theirs}`;
  // Keys may come faster than the page is drawn, so what they act on is kept beside the state.
  const [choices, drawChoices] = useState(() => {
    let kept = {};
    try { kept = JSON.parse(sessionStorage.getItem(name)) || {}; } catch { /* storage is off */ }
    for (const c of plan.conflicts) if (c.resolution && !kept[c.fingerprint]) kept[c.fingerprint] = c.resolution === "values" ? { cells: Object.fromEntries(columnsOf(c).map((n) => [n, { from: "edit", value: c.merged?.[n] ?? null }])) } : { whole: c.resolution };
    return kept;
  });
  const now = useRef(choices);
  const place = useRef(0);
  const [at, drawAt] = useState(0);
  const set = (change) => { now.current = change(now.current); drawChoices(now.current); };
  const move = (n) => { place.current = n; drawAt(n); };
  const [editing, edit] = useState(null);
  const [finishing, finish] = useState(false);
  const [busy, work] = useState(false);
  const [wrong, fail] = useState(null);
  const list = useRef();
  const all = plan.conflicts;
  const o = opened();
  useEffect(() => { try { sessionStorage.setItem(name, JSON.stringify(choices)); } catch { /* storage is off */ } }, [choices]);
  const sent = useMemo(() => all.map((c) => resolution(c, choices[c.fingerprint])).filter(Boolean), [choices, all]);
  const isOpen = (c) => !resolution(c, now.current[c.fingerprint]);
  const left = all.filter(isOpen).length + (plan.total - all.length);
  const choose = (c, choice) => set((all) => ({ ...all, [c.fingerprint]: choice }));
  const cell = (c, n, value) => set((all) => {
    const had = all[c.fingerprint];
    const cells = had?.cells || (["ours", "theirs"].includes(had?.whole) ? Object.fromEntries(columnsOf(c).map((m) => [m, { from: had.whole }])) : {});
    return { ...all, [c.fingerprint]: { cells: { ...cells, [n]: value } } };
  });
  const next = (from = place.current) => { for (let n = 1; n <= all.length; n += 1) { const i = (from + n) % all.length; if (isOpen(all[i])) { move(i); return; } } move(Math.min(all.length - 1, from + 1)); };
  const column = (table, n, side) => {
    let many = 0;
    for (const c of all) if (c.table === table && columnsOf(c).includes(n) && c.ours && c.theirs) { cell(c, n, { from: side }); many += 1; }
    say(`${n}: ${side} in ${plural(many, "row")}.`);
  };
  useEffect(() => {
    const key = (event) => {
      if (event.target.closest?.("input, textarea, select, dialog") || event.metaKey || event.ctrlKey || event.altKey || !all.length) return;
      const i = place.current, c = all[i];
      const act = { o: () => { choose(c, { whole: "ours" }); next(); }, t: () => { choose(c, { whole: "theirs" }); next(); }, e: () => c.key && edit(i), n: () => next(), j: () => move(Math.min(all.length - 1, i + 1)), k: () => move(Math.max(0, i - 1)) }[event.key];
      if (act) { act(); event.preventDefault(); event.stopPropagation(); }
    };
    document.addEventListener("keydown", key, true);
    return () => document.removeEventListener("keydown", key, true);
  });
  useEffect(() => { list.current?.querySelector('[aria-current="true"]')?.scrollIntoView({ block: "nearest" }); }, [at]);
  const send = async (message, others) => {
    work(true);
    fail(null);
    try {
      const done = await post("merge", { source: data.source, into: data.into, request: request?.number, resolutions: sent, message: message || null, others: others || null });
      if (!done.commit && done.plan) { fail({ detail: `${plural(done.plan.stale.length, "resolution")} no longer fit: the branches have moved.`, next: "Look at them again." }); work(false); return; }
      try { sessionStorage.removeItem(name); } catch { /* storage is off */ }
      say(`Merged as ${done.commit}.`);
      go(done.commit ? to("commit", { id: done.commit, branch: data.into }) : to("commits", { branch: data.into }));
    } catch (error) { fail(told(error)); work(false); }
  };
  const keep = async () => { try { await post("keep", { request: request.number, resolutions: sent }); say(`Kept with request ${request.number}.`); } catch (error) { say(error.message, "bad"); } };
  const copies = { python: `${o.python.replace(/\.branch\(.*\)$/, "")}\nplan = lake.branch("${data.into}").merge("${data.source}", preview=True)\nfor conflict in plan.conflicts:\n    plan.resolve(conflict.table, conflict.key, choose="theirs")\nplan.commit()`, cli: `quire merge ${o.lake} ${data.source} --into ${data.into} --resolutions FILE`, curl: `curl '${o.url}/merges' -H 'content-type: application/json' -d '{"source": "${data.source}", "into": "${data.into}", "resolve": "theirs"}'` };
  const solved = plan.total - left;
  return html`<${Head} title=${request ? `Request #${request.number}: resolve` : "Merge"} copies=${copies} sub=${html`<${Branch} name=${data.source} /> into <${Branch} name=${data.into} />`}>
      ${request && context.write ? html`<button type="button" class="button" disabled=${!sent.length} onClick=${keep}>Keep with the request</button>` : null}
      ${context.write && plan.outcome !== "up-to-date" ? html`<button type="button" class="button primary" disabled=${left > 0 || busy} onClick=${() => finish(true)}><${Icon} name="merge" />Merge</button>` : null}<//>
    ${plan.total ? html`<div class="meter" role="progressbar" aria-label="Conflicts resolved" aria-valuemin="0" aria-valuemax=${plan.total} aria-valuenow=${solved}><i style=${{ width: `${(100 * solved) / plan.total}%` }}></i><span><b>${solved}</b>/${plan.total} resolved</span><span class="fill"></span><span class="small muted"><kbd>o</kbd> ours <kbd>t</kbd> theirs <kbd>e</kbd> edit <kbd>n</kbd> next open</span></div>` : null}
    ${plan.stale.length ? html`<${Wrong} problem=${{ detail: `${plural(plan.stale.length, "kept resolution")} no longer fit.`, next: "They were made for other values, and are not applied." }} />` : null}
    ${wrong && !finishing ? html`<${Wrong} problem=${wrong} />` : null}
    ${all.length ? html`<ol class="conflicts" ref=${list}>${all.map((c, i) => html`<${Row} key=${c.fingerprint} c=${c} i=${i} current=${i === at} choice=${choices[c.fingerprint]} choose=${(side) => { choose(c, side ? { whole: side } : null); }} cell=${(n, v) => cell(c, n, v)} edit=${() => edit(i)} select=${() => move(i)} column=${(n, side) => column(c.table, n, side)} into=${data.into} source=${data.source} />`)}</ol>${plan.total > all.length ? html`<p class="muted">The first ${all.length} of ${plan.total}. Resolve the others by a side when you merge.</p>` : null}`
      : plan.outcome === "up-to-date" ? html`<${Empty} icon="check" title="Nothing to merge">${data.into} has everything of ${data.source}.<//>` : html`<section class="panel"><div class="panel-head"><${Outcome} plan=${plan} /><span class="muted">No row was changed on both sides.</span></div><${PlanTables} plan=${plan} a=${data.into} /></section>`}
    ${editing !== null ? html`<${Edit} c=${all[editing]} choice=${choices[all[editing].fingerprint]} close=${() => edit(null)} done=${(cells) => { choose(all[editing], { cells }); edit(null); next(editing); }} />` : null}
    ${finishing ? html`<${Dialog} title="Merge" close=${() => finish(false)}><${Finish} send=${send} busy=${busy} wrong=${wrong} words=${request ? `merge request ${request.number}: ${request.title}` : `merge ${data.source} into ${data.into}`} /><//>` : null}`;
}

function Row({ c, i, current, choice, choose, cell, edit, select, column, into, source }) {
  const names = columnsOf(c);
  const decided = resolution(c, choice);
  const from = (n) => (choice?.whole ? choice.whole : choice?.cells?.[n]?.from);
  const key = c.key ? Object.entries(c.key).map(([n, v]) => `${n} = ${shown(v)}`).join(", ") : "the whole table";
  const gone = (row, op) => (row ? null : html`<i class="muted">${op === "delete" ? "deleted" : op === "none" ? "not there" : op}</i>`);
  const as = (words) => html`<span class="as" aria-hidden="true">${words}</span>`;
  const by = (n, side) => html`<td class=${from(n) === side ? "chosen" : ""}>${as(side)}<button type="button" class="pick" aria-pressed=${from(n) === side} aria-label=${`${n}: take ${side}, ${shown(c[side]?.[n])}`} onClick=${() => cell(n, { from: side })}>${c[side] ? shown(c[side][n]) : gone(c[side], c[`${side}_op`])}</button></td>`;
  return html`<li class=${`conflict panel ${decided ? "decided" : ""}`} aria-current=${current} onClick=${select}>
    <header class="panel-head"><span class="muted num">${i + 1}</span><h2>${c.table}</h2><code>${key}</code><span class="chip conflict">${c.kind}</span>${c.rule ? html`<span class="muted">${c.rule}</span>` : null}<span class="fill"></span>
      <div class="choices" role="group" aria-label=${`Resolve ${c.table}, ${key}`}><button type="button" class="button small" aria-pressed=${choice?.whole === "ours"} onClick=${() => choose("ours")}>Ours</button><button type="button" class="button small" aria-pressed=${choice?.whole === "theirs"} onClick=${() => choose("theirs")}>Theirs</button>${c.key ? html`<button type="button" class="button small" aria-pressed=${decided?.resolution === "values"} onClick=${edit}>Edit</button>` : null}${c.key && (c.rule || !c.ours || !c.theirs) ? html`<button type="button" class="button small" aria-pressed=${choice?.whole === "delete"} onClick=${() => choose("delete")}>Delete</button>` : null}</div></header>
    <div class="scroll" tabindex="0" role="region" aria-label=${`Cells of ${key}`}><table class="three"><thead><tr><th scope="col">Column</th><th scope="col">Base</th><th scope="col">Ours <small>${into}</small></th><th scope="col">Theirs <small>${source}</small></th><th scope="col">Result</th><th><span class="hidden">All rows</span></th></tr></thead><tbody>
      ${c.ours && c.theirs ? names.map((n) => html`<tr><th scope="row">${n}</th><td class="muted">${as("base")}${c.base ? shown(c.base[n]) : gone(c.base, "not there")}</td>${by(n, "ours")}${by(n, "theirs")}<td class="result">${as("result")}${from(n) === "edit" ? html`<b>${shown(choice.cells[n].value)}</b>` : from(n) === "delete" ? html`<i>deleted</i>` : from(n) ? shown(c[from(n)]?.[n]) : html`<span class="muted">open</span>`}</td><td class="num"><button type="button" class="button quiet small" title=${`Take ours for ${n} in all rows`} onClick=${() => column(n, "ours")}>all ours</button><button type="button" class="button quiet small" title=${`Take theirs for ${n} in all rows`} onClick=${() => column(n, "theirs")}>all theirs</button></td></tr>`)
        : html`<tr><th scope="row">row</th><td class="muted">${as("base")}${c.base ? shown(c.base) : gone(c.base, "not there")}</td><td class=${choice?.whole === "ours" ? "chosen" : ""}>${as("ours")}${c.ours ? shown(c.ours) : gone(c.ours, c.ours_op)}</td><td class=${choice?.whole === "theirs" ? "chosen" : ""}>${as("theirs")}${c.theirs ? shown(c.theirs) : gone(c.theirs, c.theirs_op)}</td><td class="result">${as("result")}${choice?.whole || (decided ? "edited" : html`<span class="muted">open</span>`)}</td><td></td></tr>`}</tbody></table></div>
    ${c.partners.length ? html`<p class="small muted pad">Together with ${c.partners.map(([table, k]) => html`<code>${table} ${shown(k)}</code> `)}</p>` : null}</li>`;
}

function Edit({ c, choice, close, done }) {
  const names = columnsOf(c).filter((n) => !(c.key && n in c.key));
  const start = (n) => { const cell = choice?.cells?.[n]; const v = cell ? (cell.from === "edit" ? cell.value : c[cell.from]?.[n]) : (c.ours || c.theirs || c.base || {})[n]; return v === null || v === undefined ? "" : typeof v === "object" ? JSON.stringify(v) : String(v); };
  const [texts, type] = useState(Object.fromEntries(names.map((n) => [n, start(n)])));
  const [wrong, fail] = useState("");
  const send = (event) => {
    event.preventDefault();
    try { done(Object.fromEntries(names.map((n) => [n, { from: "edit", value: typed(texts[n], c, n) }]))); } catch (error) { fail(error.message); }
  };
  return html`<${Dialog} title="Edit the row" close=${close}><form class="form" onSubmit=${send}>${names.map((n, i) => html`<label>${n}<input class="field code" autofocus=${i === 0} value=${texts[n]} onInput=${(e) => type({ ...texts, [n]: e.target.value })} /><small class="muted">ours ${shown(c.ours?.[n])} · theirs ${shown(c.theirs?.[n])}</small></label>`)}${wrong ? html`<p class="bad" role="alert">${wrong}</p>` : null}<div class="actions"><button type="button" class="button" onClick=${close}>Cancel</button><button class="button primary">Use this</button></div></form><//>`;
}

function Finish({ send, busy, wrong, words }) {
  const [message, type] = useState(words);
  return html`<form class="form" onSubmit=${(e) => { e.preventDefault(); send(message); }}><label>Message<input class="field" autofocus value=${message} onInput=${(e) => type(e.target.value)} /></label>${wrong ? html`<${Wrong} problem=${wrong} />` : null}<div class="actions"><button class="button primary" disabled=${busy}>${busy ? "Merging…" : "Merge now"}</button></div></form>`;
}
