// Every lake of the server on a card.
import { html, to, compact, bytes, plural } from "../lib.js";
import { Head, Spark, Time, Icon, Empty } from "../parts.js";

export default function Home({ data }) {
  const server = new URL("../../../v1/lakes", import.meta.url).href.replace(/\/ui\/v1/, "/v1");
  const copies = { python: `import urllib.request, json\n\nlakes = json.load(urllib.request.urlopen("${server}"))["lakes"]`, cli: "quire status $LAKE", curl: `curl ${server}` };
  return html`<${Head} title="Lakes" copies=${copies} sub=${data.lakes.length ? plural(data.lakes.length, "lake") : null} />
    ${data.lakes.length ? html`<div class="cards">${data.lakes.map((lake) => html`<article class=${`card ${lake.problem ? "broken" : ""}`}>
      <header><h2><a href=${to("tables", {}, lake.name)}>${lake.name}</a></h2>${lake.read_only ? html`<span class="chip"><${Icon} name="lock" size=${12} />read-only</span>` : null}</header>
      ${lake.problem ? html`<p class="bad"><${Icon} name="warn" /> It does not answer.</p><p class="muted small">${lake.problem.next}</p>` : html`
      <p class="message">${lake.message || "no message"}</p><p class="muted small"><code>${lake.commit}</code> · ${lake.author ? `${lake.author} · ` : ""}<${Time} at=${lake.time} /></p>
      <div class="numbers"><div><b>${compact(lake.tables)}</b><span>tables</span></div><div><b>${compact(lake.rows)}</b><span>rows</span></div><div><b>${bytes(lake.bytes)}</b><span>data</span></div></div>${lake.activity.some(Boolean) ? html`<div class="activity"><${Spark} values=${[...Array(Math.max(0, 12 - lake.activity.length)).fill(0), ...lake.activity.map(Math.cbrt)]} bars label="rows moved by the last commits" width=${300} height=${30} stretch /><span>rows moved by the last commits</span></div>` : null}`}
    </article>`)}</div>` : html`<${Empty} icon="home" title="No lake for you here">Ask whoever runs the server for a key that opens one.<//>`}`;
}
