// The schema of the graph: a picture, the text, and what changing it would do.
import { html, useState, to, api, plural, opened, told, say, again, count, compact } from "../lib.js";
import { Head, Icon, Empty, Wrong } from "../parts.js";

const W = 210, LINE = 22, HEAD = 34, GAP_X = 130, GAP_Y = 84;

/** Boxes in columns; edges between their sides. */
export function layout(types) {
  const nodes = types.filter((t) => t.kind === "node"), edges = types.filter((t) => t.kind === "edge");
  const across = Math.max(1, Math.min(4, Math.ceil(Math.sqrt(nodes.length))));
  const degree = (t) => edges.filter((e) => e.source === t.name || e.target === t.name).length;
  const boxes = [...nodes].sort((a, b) => degree(b) - degree(a)).map((t, n) => ({ ...t, column: n % across, row: Math.floor(n / across), h: HEAD + Math.min(9, t.properties.length) * LINE + 8 }));
  const rows = Math.ceil(boxes.length / across);
  const tops = [64];
  for (let r = 0; r < rows; r += 1) tops.push(tops[r] + Math.max(...boxes.filter((b) => b.row === r).map((b) => b.h)) + GAP_Y);
  for (const b of boxes) { b.x = 30 + b.column * (W + GAP_X); b.y = tops[b.row]; }
  const by = Object.fromEntries(boxes.map((b) => [b.name, b]));
  const used = {};
  const lines = edges.filter((e) => by[e.source] && by[e.target]).map((e) => {
    const a = by[e.source], b = by[e.target], pair = [e.source, e.target].sort().join(" ");
    const nth = (used[pair] = (used[pair] ?? -1) + 1);
    if (a === b) { const left = a.x + W - 92 - nth * 34; return { ...e, path: `M${left},${a.y} C${left - 6},${a.y - 46} ${left + 66},${a.y - 46} ${left + 60},${a.y}`, x: left + 30, y: a.y - 36 }; }
    const shift = nth * 22;
    if (a.column === b.column) { const up = a.y > b.y; const from = [a.x + W / 2 + shift, up ? a.y : a.y + a.h], end = [b.x + W / 2 + shift, up ? b.y + b.h : b.y]; return { ...e, path: `M${from} C${from[0]},${(from[1] + end[1]) / 2} ${end[0]},${(from[1] + end[1]) / 2} ${end}`, x: (from[0] + end[0]) / 2, y: (from[1] + end[1]) / 2 }; }
    const right = a.column < b.column;
    const from = [right ? a.x + W : a.x, a.y + a.h / 2 + shift], end = [right ? b.x : b.x + W, b.y + b.h / 2 + shift];
    const mid = (from[0] + end[0]) / 2;
    return { ...e, path: `M${from} C${mid},${from[1]} ${mid},${end[1]} ${end}`, x: mid, y: (from[1] + end[1]) / 2 };
  });
  return { boxes, lines, width: Math.max(400, ...boxes.map((b) => b.x + W + 120)), height: Math.max(160, ...boxes.map((b) => b.y + b.h + 30)) };
}

export default function Schema({ data, context, params }) {
  const [tab, open] = useState("picture");
  const [text, type] = useState(data.schema);
  const [plan, set] = useState(null);
  const [wrong, fail] = useState(null);
  const [drop, allow] = useState(false);
  const o = opened();
  const { boxes, lines, width, height } = layout(data.types);
  const changed = text !== data.schema;
  const can = context.write && !context.at;
  const ask = async () => { fail(null); set(null); try { set(await api("POST", "schema/plan", { schema: text, drop_data: drop, branch: context.branch })); } catch (error) { fail(told(error)); } };
  const apply = async () => { try { await api("POST", "schema/apply", { schema: text, drop_data: drop, branch: context.branch }); say("The schema is applied."); set(null); again(); } catch (error) { fail(told(error)); } };
  const copies = { python: `${o.python}\ngraph = quire.Graph(lake)\nprint(graph.schema())`, cli: `quire schema show ${o.lake}${o.on}`, curl: `curl '${o.url}/schema${o.query({ at: context.at })}'` };
  return html`<${Head} title="Schema" copies=${copies} link=${to("schema", { at: data.commit })} sub=${data.types.length ? `${plural(boxes.length, "node type")}, ${plural(data.types.length - boxes.length, "edge type")}` : "The graph has no types yet"} />
    <div class="tabs" role="tablist" aria-label="Schema">${[["picture", "Picture"], ["text", "Text"]].map(([name, words]) => html`<button type="button" role="tab" aria-selected=${tab === name} aria-controls="tab" onClick=${() => open(name)}>${words}</button>`)}</div>
    <div id="tab" role="tabpanel" aria-label=${tab}>
    ${tab === "picture" ? (boxes.length ? html`<div class="panel scroll diagram" tabindex="0" role="region" aria-label="Picture of the schema"><svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`${boxes.map((b) => b.name).join(", ")}; ${lines.map((l) => `${l.source} ${l.name} ${l.target}`).join(", ")}`}>
        <defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" /></marker></defs>
        ${lines.map((l) => html`<path class="line" d=${l.path} marker-end="url(#arrow)" />`)}
        ${boxes.map((b) => html`<g transform=${`translate(${b.x},${b.y})`}><rect class="box" width=${W} height=${b.h} rx="8" /><path class="cap" d=${`M0,8 a8,8 0 0 1 8,-8 h${W - 16} a8,8 0 0 1 8,8 v${HEAD - 8} h-${W} z`} /><text class="name" x="14" y="22">${b.name}</text><text class="count" x=${W - 12} y="22" text-anchor="end">${compact(b.count)}</text>
          ${b.properties.slice(0, 9).map((p, n) => html`<text x="14" y=${HEAD + 19 + n * LINE} class=${p.key ? "key" : ""}>${p.key ? "• " : ""}${p.name.length > 15 ? `${p.name.slice(0, 14)}…` : p.name}</text><text class="type" x=${W - 12} y=${HEAD + 19 + n * LINE} text-anchor="end">${p.type.length > 14 ? `${p.type.slice(0, 13)}…` : p.type}</text>`)}</g>`)}
        ${lines.map((l) => { const w = l.name.length * 7.2 + 16; return html`<g transform=${`translate(${l.x},${l.y})`}><rect class="label" x=${-w / 2} y="-11" width=${w} height="22" rx="11" /><text class="edge" text-anchor="middle" y="4">${l.name}</text></g>`; })}</svg></div>
        <div class="panel"><div class="scroll" tabindex="0" role="region" aria-label="Types"><table class="list"><thead><tr><th scope="col">Type</th><th scope="col">Kind</th><th scope="col" class="num">Rows</th><th scope="col">From and to</th><th scope="col">Properties</th></tr></thead><tbody>${data.types.map((t) => html`<tr><th scope="row"><a href=${to("table", { name: `${t.kind}:${t.name}` })}>${t.name}</a></th><td>${t.kind}</td><td class="num">${count(t.count)}</td><td>${t.source ? `${t.source} → ${t.target}` : ""}</td><td class="muted">${t.properties.map((p) => `${p.name}: ${p.type}`).join(", ")}</td></tr>`)}</tbody></table></div></div>` : html`<${Empty} icon="schema" title="No types yet" code=${`node Person {\n  name: String @key\n}\n\nedge Knows: Person -> Person`}>Write the first types under Text, look at the plan, apply it.<//>`)
      : html`<div class="with-side"><section class="panel pad form"><label>Schema<textarea class="field code source" spellcheck="false" readonly=${!can} rows=${Math.max(14, text.split("\n").length + 1)} value=${text} onInput=${(e) => { type(e.target.value); set(null); }}></textarea></label>${can ? html`<div class="actions"><label class="check"><input type="checkbox" checked=${drop} onChange=${(e) => { allow(e.target.checked); set(null); }} /> data may be dropped</label><button type="button" class="button" disabled=${!changed} onClick=${() => { type(data.schema); set(null); fail(null); }}>Undo</button><button type="button" class="button primary" disabled=${!changed} onClick=${ask}>Plan</button></div>` : null}</section>
        <aside class="stack">${wrong ? html`<${Wrong} problem=${wrong} />` : null}${plan ? html`<section class="panel pad"><h2>Plan</h2><ul class="steps">${plan.steps.map((s) => html`<li><${Icon} name="check" />${s.sentence}</li>`)}${plan.refusals.map((s) => html`<li class="bad"><${Icon} name="warn" />${s.sentence || s.message || JSON.stringify(s)}</li>`)}${!plan.steps.length && !plan.refusals.length ? html`<li class="muted">Nothing would change.</li>` : null}</ul>${plan.steps.length && !plan.refusals.length ? html`<div class="actions"><button type="button" class="button primary" onClick=${apply}>Apply in one commit</button></div>` : null}</section>` : html`<p class="muted small pad">Change the text and look at the plan first. Nothing happens until you apply it.</p>`}</aside></div>`}</div>`;
}
