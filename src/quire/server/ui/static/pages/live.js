// What happens right now: every commit as it is made, with its rows.
import { html, useState, useEffect, useRef, to, count, opened, API, shown, say } from "../lib.js";
import { Head, Icon, Time, Who, Delta, Empty, Commit } from "../parts.js";

export default function Live({ data, context }) {
  const [found, set] = useState([]);
  const [state, be] = useState("connecting");
  const [paused, pause] = useState(false);
  const held = useRef([]);
  const o = opened();
  useEffect(() => {
    const url = new URL(`lakes/${encodeURIComponent(context.lake)}/changes`, API);
    url.searchParams.set("cursor", data.cursor);
    if (context.branch && context.branch !== "main") url.searchParams.set("branch", context.branch);
    const source = new EventSource(url.href);
    source.onopen = () => be("live");
    source.onerror = () => be(source.readyState === EventSource.CLOSED ? "ended" : "reconnecting");
    source.addEventListener("commit", (event) => { held.current = [JSON.parse(event.data), ...held.current].slice(0, 200); if (!document.documentElement.dataset.paused) set(held.current); });
    return () => source.close();
  }, [context.lake, context.branch]);
  useEffect(() => { if (paused) document.documentElement.dataset.paused = "true"; else { delete document.documentElement.dataset.paused; set(held.current); } return () => { delete document.documentElement.dataset.paused; }; }, [paused]);
  const copies = { python: `${o.python}\nfor block in lake.changes(since="now"):\n    print(block.commit, block.tables)`, cli: `quire changes ${o.lake}${o.on} --follow`, curl: `curl -N '${o.url}/changes${o.query({})}' -H 'accept: text/event-stream'` };
  const tables = (block) => (Array.isArray(block.tables) ? block.tables : []);
  return html`<${Head} title="Live" copies=${copies} kind=${html`<span class=${`chip ${state === "live" ? "done" : state === "ended" ? "failed" : "running"}`}><i class=${`pulse ${state}`}></i>${state}</span>`} sub=${html`commits of <b>${context.branch}</b> as they are made`}><button type="button" class="button" aria-pressed=${paused} onClick=${() => pause(!paused)}>${paused ? "Go on" : "Pause"}</button><//>
    <div class="with-side"><section class="panel" aria-live="polite" aria-label="New commits">${found.length ? html`<ol class="stream">${found.map((b) => html`<li key=${b.commit}><header><${Commit} id=${b.commit} /><b>${b.message || "no message"}</b><span class="fill"></span><${Who} name=${b.author} /><${Time} at=${b.time} /></header>${tables(b).map((t) => html`<details><summary><b>${t.table || t.name}</b> <span class="muted">${count((t.rows || []).length)} ${(t.rows || []).length === 1 ? "change" : "changes"}</span></summary><div class="scroll" tabindex="0" role="region" aria-label="Changed rows"><table class="diff"><tbody>${(t.rows || []).slice(0, 30).map((row) => html`<tr class=${row._change_type === "insert" ? "added" : row._change_type === "delete" ? "removed" : "changed"}><th scope="row" class="sign">${row._change_type === "insert" ? "+" : row._change_type === "delete" ? "−" : "~"}</th>${Object.entries(row).filter(([n]) => !n.startsWith("_")).map(([n, v]) => html`<td><span class="muted">${n}</span> ${shown(v)}</td>`)}</tr>`)}</tbody></table></div></details>`)}</li>`)}</ol>` : html`<${Empty} icon="live" title="Waiting for the next commit" code=${`${o.python}\nwith lake.transaction("hello") as tx:\n    tx["people"].append([{"id": 1}])`}>It appears here within a second, whoever makes it.<//>`}</section>
      <aside class="panel"><div class="panel-head"><h2>Before</h2></div><ol class="feed">${data.recent.map((c) => html`<li><a href=${to("commit", { id: c.id })}><span class="message">${c.message || "no message"}</span><span class="small muted">${c.id} · ${c.author} · <${Time} at=${c.time} /></span></a></li>`)}</ol></aside></div>`;
}
