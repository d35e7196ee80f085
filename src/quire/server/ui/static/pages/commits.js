// The commits of a lake: a lane for every branch, merges, tags.
import { html, useState, useMemo, to, go, twin, plural, opened, compact, say } from "../lib.js";
import { Head, Time, Who, Delta, Tag, Branch, Empty, useList, laneOf } from "../parts.js";

const ROW = 64, LANE = 18, LEFT = 16;

/** Where every commit lies, and the lines between them. */
export function layout(commits, branch) {
  const names = [];
  for (const c of [{ branch }, ...commits]) if (!names.includes(c.branch)) names.push(c.branch);
  const lane = Object.fromEntries(names.map((name, n) => [name, n]));
  const at = new Map(commits.map((c, n) => [`${c.branch} ${c.id}`, n]));
  const lines = [];
  commits.forEach((c, n) => c.parents.forEach((p, nth) => {
    const below = at.get(`${p.branch} ${p.id}`);
    const from = { x: LEFT + lane[c.branch] * LANE, y: n * ROW + ROW / 2 };
    const name = below === undefined ? (lane[p.branch] === undefined ? c.branch : p.branch) : commits[below].branch;
    const end = { x: LEFT + lane[name] * LANE, y: below === undefined ? commits.length * ROW : below * ROW + ROW / 2 };
    const own = nth === 0 ? c.branch : name;
    const bend = nth === 0 ? end.y - ROW / 2 : from.y + ROW / 2;
    const path = from.x === end.x ? `M${from.x},${from.y} V${end.y}` : nth === 0
      ? `M${from.x},${from.y} V${Math.max(from.y, bend)} C${from.x},${end.y} ${end.x},${Math.max(from.y, bend)} ${end.x},${end.y}`
      : `M${from.x},${from.y} C${from.x},${bend} ${end.x},${from.y} ${end.x},${Math.min(end.y, bend)} V${end.y}`;
    lines.push({ path, lane: lane[own], merge: nth > 0 });
  }));
  return { lane, lines, width: LEFT * 2 + (names.length - 1) * LANE, names };
}

export default function Commits({ data, context }) {
  const [more, add] = useState({ commits: [], next: data.next, busy: false });
  const all = useMemo(() => [...data.commits, ...more.commits], [data, more.commits]);
  const { lane, lines, width, names } = useMemo(() => layout(all, context.branch), [all]);
  const heads = Object.fromEntries(data.branches.map((b) => [`${b.name} ${b.head}`, b.name]));
  const here = useList(all.length, (n) => go(to("commit", { id: all[n].id, branch: all[n].branch })));
  const o = opened();
  const on = async () => {
    add({ ...more, busy: true });
    try {
      const s = await twin("commits", { before: more.next });
      add({ commits: [...more.commits, ...s.data.commits], next: s.data.next, busy: false });
    } catch (error) { say(error.message, "bad"); add({ ...more, busy: false }); }
  };
  const copies = { python: `${o.python}\nfor commit in lake.log(limit=60):\n    print(commit.id, commit.author, commit.message)`, cli: `quire log ${o.lake}${o.on} --graph`, curl: `curl '${o.url}/commits${o.query({})}'` };
  if (!all.length) return html`<${Head} title="Commits" copies=${copies} /><${Empty} icon="commits" title="No commits yet">The first one makes a table.<//>`;
  return html`<${Head} title="Commits" copies=${copies} sub=${html`of <b>${context.branch}</b>${names.length > 1 ? `, beside ${plural(names.length - 1, "other branch", "other branches")}` : ""}`}><a class="button" href=${to("compare", {})}>Compare</a><//>
    <section class="panel commits"><div class="lanes" style=${{ width: `${width}px` }} aria-hidden="true"><svg width=${width} height=${all.length * ROW}>${lines.map((l) => html`<path d=${l.path} class=${`lane-${laneOf(names[l.lane])} ${l.merge ? "merge" : ""}`} />`)}${all.map((c, n) => html`<circle cx=${LEFT + lane[c.branch] * LANE} cy=${n * ROW + ROW / 2} r=${c.parents.length > 1 ? 6 : 5} class=${`lane-${laneOf(c.branch)} ${c.parents.length > 1 ? "merged" : ""}`} />`)}</svg></div>
      <ol>${all.map((c, n) => { const t = Object.values(c.tables); return html`<li data-at=${n === here} class=${n === here ? "active" : ""}><a class="row" href=${to("commit", { id: c.id, branch: c.branch })}><span class="message">${c.message || html`<i class="muted">no message</i>`}</span><span class="meta"><code>${c.id}</code><${Who} name=${c.author} /><${Time} at=${c.time} />${c.parents.length > 1 ? html`<span>merge of ${c.parents[1].branch}</span>` : null}${c.reverts ? html`<span>reverts ${c.reverts}</span>` : null}</span></a>
        <span class="refs">${heads[`${c.branch} ${c.id}`] ? html`<${Branch} name=${c.branch} />` : null}${(data.tags[c.id] || []).map((name) => html`<${Tag} name=${name} commit=${c.id} />`)}</span>
        <span class="what"><${Delta} added=${t.reduce((s, x) => s + x.added, 0)} removed=${t.reduce((s, x) => s + x.removed, 0)} /><small class="muted">${plural(t.length, "table")}${c.cost ? ` · ${compact(c.cost.total + Object.values(c.cost.external || {}).reduce((a, b) => a + b, 0))} req` : ""}</small></span></li>`; })}</ol></section>
    ${more.next ? html`<div class="center"><button type="button" class="button" disabled=${more.busy} onClick=${on}>${more.busy ? "Reading…" : "Older commits"}</button></div>` : null}`;
}
