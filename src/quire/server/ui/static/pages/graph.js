// The graph: a picture that one walks through, with everything in it as a table, too.
import { html, useState, useEffect, useRef, useMemo, to, twin, count, compact, plural, opened, quoted, shown, say, told, kept } from "../lib.js";
import { Head, Icon, Empty, Wrong, Time, Who, Commit, Cell, Skeleton } from "../parts.js";
import { Sigma, Graph } from "../vendor/sigma-3.0.3.js";

const id = (n) => `${n.type}\u0000${n.id}`;
const colour = (n) => { const probe = document.createElement("i"); probe.className = `lane-${n}`; probe.style.color = "var(--u-lane)"; document.body.append(probe); const found = getComputedStyle(probe).color; probe.remove(); return hex(found); };
const token = (name) => { const probe = document.createElement("i"); probe.style.color = `var(${name})`; document.body.append(probe); const found = getComputedStyle(probe).color; probe.remove(); return hex(found); };
const hex = (text) => { const [r, g, b] = text.match(/[\d.]+/g).map(Number); return `#${[r, g, b].map((v) => Math.round(v).toString(16).padStart(2, "0")).join("")}`; };
const spread = (key) => { let h = 2166136261; for (const c of key) h = Math.imul(h ^ c.charCodeAt(0), 16777619); return [((h >>> 16) % 1000) / 500 - 1, ((h & 0xffff) % 1000) / 500 - 1]; };

export default function Explorer({ data, context, params }) {
  const box = useRef(), sigma = useRef(), worker = useRef(), graph = useRef();
  const [types, setTypes] = useState(() => Object.fromEntries(data.types.map((t) => [t.name, true])));
  const [picked, pick] = useState(null);
  const [about, tell] = useState(null);
  const [path, setPath] = useState(null);
  const [from, setFrom] = useState(null);
  const [side, open] = useState("node");
  const [size, resize] = useState({ nodes: data.nodes.length, edges: data.edges.length });
  const [wrong, fail] = useState(null);
  const [pinned, pin] = useState(new Set());
  const look = useRef({ types, picked, path, near: new Set(), pinned });
  const lanes = useMemo(() => Object.fromEntries(data.types.filter((t) => t.kind === "node").map((t, n) => [t.name, 1 + (n % 7)])), [data.types]);
  const o = opened();

  const add = (nodes, edges, around) => {
    const g = graph.current;
    let fresh = 0;
    for (const n of nodes) if (!g.hasNode(id(n))) {
      const [x, y] = spread(id(n));
      const near = around && g.hasNode(around) ? g.getNodeAttributes(around) : { x: 0, y: 0 };
      const far = around ? 0.05 * Math.sqrt(g.order) : 10 * Math.sqrt(nodes.length);
      g.addNode(id(n), { x: near.x + x * far, y: near.y + y * far, label: n.label, kind: n.type, id: n.id, size: 4 });
      fresh += 1;
    }
    for (const e of edges) { const key = `${e.type}\u0000${e.id}`, a = e.from.join("\u0000"), b = e.to.join("\u0000"); if (!g.hasEdge(key) && g.hasNode(a) && g.hasNode(b)) g.addEdgeWithKey(key, a, b, { kind: e.type }); }
    g.forEachNode((n) => g.setNodeAttribute(n, "size", Math.min(14, 3.2 + Math.sqrt(g.degree(n)))));
    resize({ nodes: g.order, edges: g.size });
    return fresh;
  };
  const arrange = (rounds) => {
    const g = graph.current;
    const nodes = g.mapNodes((key, a) => ({ key, x: a.x, y: a.y, fixed: look.current.pinned.has(key) }));
    const turn = (arrange.turn = (arrange.turn || 0) + 1);
    worker.current.onmessage = ({ data: told }) => { if (told.id !== turn) return; if (told.at) { nodes.forEach((n, i) => { if (g.hasNode(n.key) && !look.current.dragged?.has(n.key)) g.mergeNodeAttributes(n.key, { x: told.at[2 * i], y: told.at[2 * i + 1] }); }); } if (told.done && box.current) box.current.dataset.settled = "true"; };
    if (box.current) delete box.current.dataset.settled;
    worker.current.postMessage({ id: turn, nodes, edges: g.mapEdges((e, a, s, t) => [s, t]), rounds, most: 6000 });
  };

  useEffect(() => {
    if (!data.nodes.length) return undefined;
    const g = (graph.current = new Graph({ multi: true }));
    worker.current = new Worker(new URL("../layout-worker.js", import.meta.url), { type: "module" });
    const paint = () => { look.current.colours = { lanes: Object.fromEntries(Object.entries(lanes).map(([name, n]) => [name, colour(n)])), edge: token("--q-border-strong"), faint: token("--q-border"), accent: token("--q-accent"), text: token("--q-text") }; };
    paint();
    add(data.nodes, data.edges);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const draw = new Sigma(g, box.current, {
      allowInvalidContainer: true, labelRenderedSizeThreshold: 7, labelDensity: 0.6, labelFont: "system-ui, sans-serif", labelSize: 12, labelColor: { color: look.current.colours.text }, minCameraRatio: 0.02, maxCameraRatio: 6, hideEdgesOnMove: g.order > 3000, defaultEdgeType: "line",
      defaultDrawNodeHover: (c, d, settings) => { c.font = `${settings.labelSize}px ${settings.labelFont}`; const w = d.label ? c.measureText(d.label).width + 12 : 0; c.fillStyle = token("--q-raised"); c.strokeStyle = look.current.colours.accent; c.beginPath(); c.roundRect(d.x + d.size + 2, d.y - 11, w, 22, 5); c.fill(); c.stroke(); c.beginPath(); c.arc(d.x, d.y, d.size + 2, 0, 7); c.stroke(); c.fillStyle = look.current.colours.text; c.fillText(d.label || "", d.x + d.size + 8, d.y + 4); },
      nodeReducer: (key, a) => { const now = look.current, c = now.colours; const dim = (now.picked && key !== now.picked && !now.near.has(key)) || (now.path && !now.path.nodes.has(key)); return { ...a, hidden: now.types[a.kind] === false, color: dim ? c.faint : c.lanes[a.kind] || c.edge, label: dim ? "" : a.label, zIndex: dim ? 0 : 1, highlighted: key === now.picked, size: now.pinned.has(key) ? a.size + 2 : a.size, forceLabel: key === now.picked || now.path?.nodes.has(key) }; },
      edgeReducer: (key, a) => { const now = look.current, c = now.colours; const [s, t] = g.extremities(key); const on = now.path ? now.path.edges.has(key) : now.picked ? s === now.picked || t === now.picked : false; return { ...a, hidden: now.types[a.kind] === false, color: on ? c.accent : now.picked || now.path ? c.faint : c.edge, size: on ? 2 : 0.7, zIndex: on ? 1 : 0 }; },
    });
    sigma.current = draw;
    let dragging = null, moved = false;
    draw.on("clickNode", ({ node }) => { if (!moved) choose(node); });
    draw.on("doubleClickNode", (event) => { event.preventSigmaDefault(); expand(event.node); });
    draw.on("clickStage", () => { look.current.picked = null; pick(null); draw.refresh({ skipIndexation: true }); });
    draw.on("downNode", ({ node }) => { dragging = node; moved = false; draw.getCamera().disable(); });
    draw.getMouseCaptor().on("mousemovebody", (e) => { if (!dragging) return; moved = true; const at = draw.viewportToGraph(e); (look.current.dragged ||= new Set()).add(dragging); g.mergeNodeAttributes(dragging, at); e.preventSigmaDefault(); e.original.preventDefault(); });
    draw.getMouseCaptor().on("mouseup", () => { if (dragging && moved) setPin(dragging, true); dragging = null; draw.getCamera().enable(); });
    const recolour = () => { paint(); draw.setSetting("labelColor", { color: look.current.colours.text }); draw.refresh(); };
    document.addEventListener("themechange", recolour);
    arrange(calm ? 120 : data.nodes.length > 1500 ? 150 : 400);
    return () => { document.removeEventListener("themechange", recolour); worker.current.terminate(); draw.kill(); };
  }, [data.commit, data.nodes.length]);

  const refresh = () => sigma.current?.refresh({ skipIndexation: true });
  const setPin = (key, on) => { const next = new Set(look.current.pinned); if (on) next.add(key); else { next.delete(key); look.current.dragged?.delete(key); } look.current.pinned = next; pin(next); refresh(); };
  const show = (key) => { const d = sigma.current?.getNodeDisplayData(key); if (d) sigma.current.getCamera().animate({ x: d.x, y: d.y, ratio: Math.min(0.5, sigma.current.getCamera().ratio) }, { duration: matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 350 }); };
  const choose = async (key) => {
    const [type, nodeId] = key.split("\u0000");
    look.current.picked = key;
    look.current.near = new Set(graph.current.hasNode(key) ? graph.current.neighbors(key) : []);
    pick(key);
    open("node");
    refresh();
    fail(null);
    try { const s = await twin("around", { type, id: nodeId, at: data.commit, branch: context.branch }); if (look.current.picked === key) tell(s.data); } catch (error) { fail(told(error)); }
  };
  const expand = async (key = picked) => {
    const [type, nodeId] = key.split("\u0000");
    try {
      const s = await twin("around", { type, id: nodeId, at: data.commit });
      const fresh = add([s.data.node, ...s.data.nodes], s.data.edges, key);
      look.current.near = new Set(graph.current.neighbors(key));
      if (fresh) arrange(80); else refresh();
      say(fresh ? `${plural(fresh, "node")} more.` : "All its neighbours are here already.");
    } catch (error) { say(error.message, "bad"); }
  };
  const jump = (node) => { add([node], []); choose(id(node)); setTimeout(() => show(id(node)), 50); };
  const walk = async (key) => {
    const [type, a] = from.split("\u0000"), [toType, b] = key.split("\u0000");
    try {
      const s = await twin("path", { type, id: a, to_type: toType, to_id: b, at: data.commit });
      if (!s.data.edges.length) { say(`No path: ${count(s.data.looked)} nodes were looked at.`, "bad"); setFrom(null); return; }
      add(s.data.nodes, s.data.edges, from);
      look.current.path = { nodes: new Set(s.data.nodes.map(id)), edges: new Set(s.data.edges.map((e) => `${e.type}\u0000${e.id}`)) };
      look.current.picked = null;
      pick(null);
      setPath(s.data);
      setFrom(null);
      open("path");
      refresh();
    } catch (error) { say(error.message, "bad"); setFrom(null); }
  };
  const clear = () => { look.current.path = null; setPath(null); open("node"); refresh(); };
  const turn = (name) => { const next = { ...types, [name]: types[name] === false }; look.current.types = next; setTypes(next); refresh(); };
  const copies = { python: `${o.python}\ngraph = quire.Graph(lake)\n${picked ? `print(graph.neighbours(${quoted(picked.split("\u0000")[0])}, ${quoted(picked.split("\u0000")[1])}))` : "print(graph.schema())"}`, cli: `quire dump ${o.lake}${o.on}`, curl: `curl '${o.url}/schema${o.query({})}'` };
  const total = data.types.filter((t) => t.kind === "node").reduce((s, t) => s + t.count, 0);
  if (!data.types.length) return html`<${Head} title="Graph" copies=${copies} /><${Empty} icon="graph" title="This lake has no graph yet" code=${`${o.python}\ngraph = quire.Graph(lake)\ngraph.apply_schema("node Person { name: String @key }\\nedge Knows: Person -> Person")`}>Give it types of nodes and edges. Their tables move in the same commits as all others.<//>`;
  return html`<${Head} title="Graph" copies=${copies} link=${to("graph", { at: data.commit, nodes: params.nodes })} sub=${html`${count(size.nodes)} of ${plural(total, "node")}, ${plural(size.edges, "edge")} in the picture`}><${Find} jump=${jump} commit=${data.commit} /><//>
    ${data.nodes.length ? html`<div class="explorer"><div class="canvas panel"><div class="sigma" ref=${box} role="img" aria-label="Picture of the graph. Everything in it is in the table beside it."></div>
        <div class="over types" role="group" aria-label="Types that are shown">${data.types.map((t) => html`<button type="button" class=${`chip type lane-${lanes[t.name] || 0} ${t.kind}`} aria-pressed=${types[t.name] !== false} onClick=${() => turn(t.name)}><i></i>${t.name}<small>${compact(t.count)}</small></button>`)}</div>
        <div class="over tools2"><button type="button" class="button square" aria-label="Closer" onClick=${() => sigma.current.getCamera().animatedZoom({ duration: 200 })}>+</button><button type="button" class="button square" aria-label="Farther" onClick=${() => sigma.current.getCamera().animatedUnzoom({ duration: 200 })}>−</button><button type="button" class="button square" aria-label="All of it" onClick=${() => sigma.current.getCamera().animatedReset({ duration: 200 })}><${Icon} name="home" /></button>${size.nodes < Math.min(total, 5000) ? html`<a class="button" href=${to("graph", { nodes: Math.min(5000, Math.max(1000, size.nodes * 4)) })}>More nodes</a>` : null}</div>
        ${from ? html`<div class="over hint" role="status">Choose the other end of the path. <button type="button" class="button small" onClick=${() => setFrom(null)}>Cancel</button></div>` : null}</div>
      <aside class="panel side"><div class="tabs" role="tablist" aria-label="Beside the picture">${[["node", "Node"], ["table", "As a table"], ...(path ? [["path", "Path"]] : [])].map(([name, words]) => html`<button type="button" role="tab" aria-selected=${side === name} aria-controls="beside" onClick=${() => open(name)}>${words}</button>`)}</div>
        <div id="beside" role="tabpanel" aria-label=${side} class="pad">
        ${wrong ? html`<${Wrong} problem=${wrong} />` : null}
        ${side === "node" ? (picked && about && id(about.node) === picked ? html`<${Node} about=${about} key=${picked} lane=${lanes[about.node.type]} choose=${(key, node) => { add([node], []); if (from) walk(key); else choose(key); }} expand=${() => expand()} show=${() => show(picked)} pinned=${pinned.has(picked)} pin=${() => setPin(picked, !pinned.has(picked))} path=${() => (from && from !== picked ? walk(picked) : setFrom(picked))} from=${from} commit=${data.commit} />` : picked && !wrong ? html`<${Skeleton} />` : html`<p class="muted">Choose a node in the picture, in the table, or by search. Double click shows its neighbours; drag pins it.</p>`) : null}
        ${side === "table" ? html`<${Table} graph=${graph.current} types=${types} size=${size} choose=${(key) => { if (from) walk(key); else { choose(key); show(key); } }} />` : null}
        ${side === "path" && path ? html`<ol class="path">${path.edges.map((e, n) => html`<li><span class=${`chip type lane-${lanes[e.from[0]] || 0}`}><i></i>${path.nodes.find((x) => id(x) === e.from.join("\u0000"))?.label}</span><span class="muted">${e.type} →</span><span class=${`chip type lane-${lanes[e.to[0]] || 0}`}><i></i>${path.nodes.find((x) => id(x) === e.to.join("\u0000"))?.label}</span></li>`)}</ol><div class="actions"><button type="button" class="button" onClick=${clear}>Clear the path</button></div>` : null}</div></aside></div>` : html`<${Empty} icon="graph" title="No nodes yet">The types are there. <a href=${to("schema")}>Look at the schema</a>, and load rows.<//>`}`;
}

function Find({ jump, commit }) {
  const [word, type] = useState("");
  const [found, set] = useState([]);
  const [at, move] = useState(0);
  useEffect(() => {
    if (!word) { set([]); return undefined; }
    const stop = new AbortController();
    const wait = setTimeout(() => twin("find", { q: word, at: commit }, { signal: stop.signal }).then((s) => { set(s.data.found); move(0); }, () => {}), 150);
    return () => { clearTimeout(wait); stop.abort(); };
  }, [word]);
  const take = (n) => { jump(n); type(""); };
  const key = (e) => { if (e.key === "ArrowDown") { move(Math.min(found.length - 1, at + 1)); e.preventDefault(); } if (e.key === "ArrowUp") { move(Math.max(0, at - 1)); e.preventDefault(); } if (e.key === "Enter" && found[at]) take(found[at]); if (e.key === "Escape") type(""); };
  return html`<div class="drop finder"><input class="field" type="search" role="combobox" aria-expanded=${found.length > 0} aria-controls="nodes-found" aria-label="Find a node" placeholder="Find a node" value=${word} onInput=${(e) => type(e.target.value)} onKeyDown=${key} />${found.length ? html`<div class="menu" id="nodes-found" role="listbox" aria-label="Nodes">${found.slice(0, 10).map((n, i) => html`<div role="option" aria-selected=${i === at} class="option" onClick=${() => take(n)}><span>${n.label}</span><small class="muted">${n.type}</small></div>`)}</div>` : null}</div>`;
}

function Node({ about, lane, choose, expand, show, pinned, pin, path, from, commit }) {
  const { node, edges, nodes } = about;
  const [past, set] = useState(null);
  const names = Object.fromEntries(nodes.map((n) => [id(n), n]));
  const me = id(node);
  const ask = () => twin("past", { type: node.type, id: node.id, at: null }).then((s) => set(s.data.versions), (e) => say(e.message, "bad"));
  return html`<div class="stack"><header><span class=${`chip type lane-${lane}`}><i></i>${node.type}</span><h2 class="big">${node.label}</h2><div class="chips"><button type="button" class="button small" onClick=${expand}><${Icon} name="plus" size=${13} />Expand</button><button type="button" class="button small" aria-pressed=${pinned} onClick=${pin}><${Icon} name="pin" size=${13} />${pinned ? "Pinned" : "Pin"}</button><button type="button" class="button small" onClick=${path}>${from ? "Path to here" : "Path from here"}</button><button type="button" class="button small" onClick=${show}>Show</button></div></header>
    <dl class="facts">${Object.entries(node.properties).map(([n, v]) => html`<div><dt>${n}</dt><dd class="ellipsis"><${Cell} value=${v} /></dd></div>`)}</dl>
    <section><h3>${plural(edges.length, "edge")}${about.more ? " or more" : ""}</h3><div class="scroll edges" tabindex="0" role="region" aria-label="Edges"><table class="list"><thead><tr><th scope="col">Edge</th><th scope="col"><span class="hidden">Direction</span></th><th scope="col">Node</th></tr></thead><tbody>${edges.map((e) => { const out = e.from.join("\u0000") === me; const other = (out ? e.to : e.from).join("\u0000"); return html`<tr><td>${e.type}</td><td class="muted">${out ? "to" : "from"}</td><td><button type="button" class="linkish" onClick=${() => choose(other, names[other] || { type: other.split("\u0000")[0], id: other.split("\u0000")[1], label: other.split("\u0000")[1] })}>${names[other]?.label || other.split("\u0000")[1]}</button></td></tr>`; })}</tbody></table></div></section>
    <section><h3>History</h3>${past ? html`<ol class="rows tight">${past.map((v) => html`<li><${Commit} id=${v.commit} /><span class="main">${v.change} <small class="muted">${v.columns.join(", ")}</small></span><${Time} at=${v.time} /></li>`)}</ol>` : html`<button type="button" class="button small" onClick=${ask}>Versions of this node</button>`}</section></div>`;
}

function Table({ graph, types, size, choose }) {
  const [word, type] = useState("");
  const rows = [];
  graph?.forEachNode((key, a) => { if (types[a.kind] !== false && a.label.toLowerCase().includes(word.toLowerCase())) rows.push([key, a, graph.degree(key)]); });
  rows.sort((a, b) => b[2] - a[2]);
  return html`<div class="stack"><input class="field" type="search" placeholder="Filter" aria-label="Filter the nodes" value=${word} onInput=${(e) => type(e.target.value)} /><div class="scroll long" tabindex="0" role="region" aria-label="Nodes of the picture"><table class="list"><thead><tr><th scope="col">Node</th><th scope="col">Type</th><th scope="col" class="num">Edges</th></tr></thead><tbody>${rows.slice(0, 300).map(([key, a, d]) => html`<tr><th scope="row"><button type="button" class="linkish" onClick=${() => choose(key)}>${a.label}</button></th><td>${a.kind}</td><td class="num">${d}</td></tr>`)}</tbody></table></div>${rows.length > 300 ? html`<p class="small muted">The 300 with the most edges of ${count(rows.length)}.</p>` : null}</div>`;
}
