// The tables of one commit.
import { html, useState, to, count, compact, bytes, plural, opened, moment } from "../lib.js";
import { Head, Spark, Time, Icon, Empty, Commit, Delta, useList, go } from "../parts.js";

const KINDS = { node: ["node", "node type"], edge: ["edge", "edge type"], table: ["table", "table"], graph: ["schema", "kept by the graph"] };

export default function Tables({ data, context }) {
  const [word, type] = useState("");
  const [by, sort] = useState(["name", 1]);
  const o = opened();
  const at = context.at ? data.commit : null;
  const shown = data.tables.filter((t) => t.name.toLowerCase().includes(word.toLowerCase()));
  const [key, way] = by;
  shown.sort((a, b) => way * (typeof a[key] === "number" ? a[key] - b[key] : String(a[key]).localeCompare(String(b[key]), "en", { numeric: true })));
  const here = useList(shown.length, (n) => go(to("table", { name: shown[n].name })));
  const rows = data.tables.reduce((sum, t) => sum + t.rows, 0), size = data.tables.reduce((sum, t) => sum + t.bytes, 0);
  const copies = {
    python: `${o.python}\nsnap = lake.${at ? `at(commit="${data.commit}")` : "snapshot()"}\nprint(snap.tables())`,
    cli: `quire tables ${o.lake}${o.on}${at ? ` --at ${data.commit}` : ""}`,
    curl: `curl '${o.url}/tables${o.query({ at })}'`,
  };
  const Sort = ({ name, of, num }) => html`<th scope="col" class=${num ? "num" : ""} aria-sort=${key === of ? (way > 0 ? "ascending" : "descending") : "none"}><button type="button" onClick=${() => sort([of, key === of ? -way : num ? -1 : 1])}>${name}${key === of ? html`<span aria-hidden="true">${way > 0 ? " ↑" : " ↓"}</span>` : null}</button></th>`;
  return html`<${Head} title="Tables" copies=${copies} link=${to("tables", { at: data.commit })} sub=${html`${plural(data.tables.length, "table")} · ${plural(rows, "row")} · ${bytes(size)} · at <${Commit} id=${data.commit} />, <span title=${moment(data.time)}><${Time} at=${data.time} /></span>`} />
    ${data.tables.length ? html`<div class="with-side"><section class="panel"><div class="panel-head"><input class="field" type="search" placeholder="Filter tables" aria-label="Filter tables" value=${word} onInput=${(e) => type(e.target.value)} /><span class="muted small">${shown.length < data.tables.length ? `${shown.length} of ${data.tables.length}` : ""}</span></div>
      <div class="scroll tall" tabindex="0" role="region" aria-label="Tables"><table class="list"><thead><tr><${Sort} name="Name" of="name" /><${Sort} name="Rows" of="rows" num /><th scope="col" class="wide">Lately</th><${Sort} name="Size" of="bytes" num /><${Sort} name="Version" of="version" num /><${Sort} name="Changed by" of="commit" num /></tr></thead>
      <tbody>${shown.map((t, n) => html`<tr data-at=${n === here} class=${n === here ? "active" : ""}><th scope="row"><a class="row" href=${to("table", { name: t.name })}><span class=${`kind ${t.kind}`} title=${KINDS[t.kind][1]}><${Icon} name=${KINDS[t.kind][0]} size=${14} /></span><span>${t.kind === "table" ? t.name : html`<span class="muted">${t.name.split(":")[0]}:</span>${t.name.split(":").slice(1).join(":")}`}</span>${t.key.length ? html`<span class="chip plain" title=${`key: ${t.key.join(", ")}`}><${Icon} name="key" size=${11} />${t.key.join(", ")}</span>` : null}</a></th>
        <td class="num">${count(t.rows)}</td><td class="wide"><${Spark} values=${t.line} label=${`${t.name}: rows over the last commits`} /></td><td class="num">${bytes(t.bytes)}</td><td class="num">${t.version}</td><td class="num"><${Commit} id=${t.commit} /></td></tr>`)}
      ${!shown.length ? html`<tr><td colspan="6" class="none">No table has “${word}” in its name.</td></tr>` : null}</tbody></table></div></section>
      <aside class="panel"><div class="panel-head"><h2>Newest commits</h2><a class="small" href=${to("commits", { at: null })}>All</a></div><ol class="feed">${data.recent.map((c) => html`<li><a href=${to("commit", { id: c.id })}><span class="message">${c.message || html`<i>no message</i>`}</span><span class="small muted">${c.id} · ${c.author} · <${Time} at=${c.time} /></span><span class="small"><${Delta} added=${Object.values(c.tables).reduce((s, t) => s + t.added, 0)} removed=${Object.values(c.tables).reduce((s, t) => s + t.removed, 0)} /> <span class="muted">in ${plural(Object.keys(c.tables).length, "table")}</span></span></a></li>`)}</ol></aside></div>`
    : html`<${Empty} title="This lake has no tables yet" code=${`${o.python}\nlake.create_table("people", [{"id": 1, "name": "Ada"}], key="id")`}>Make the first one. It appears here with the commit that makes it.<//>`}`;
}
