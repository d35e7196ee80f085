// The console: SQL and graph queries, with completion, errors at their place, results as table, chart and plan.
import { html, useState, useEffect, useRef, to, twin, api, post, count, plural, opened, quoted, shell, shown, say, copy, told, kept, isNumber, current, ago } from "../lib.js";
import { Head, Icon, Wrong, Window, Menu, Cost, Commit, Time, Empty, widthOf, Dialog } from "../parts.js";

const STARTS = { sql: (d) => (d.tables.length ? `select *\nfrom ${name(d.tables[0].name)}\nlimit 100` : "select 1 as one"), gq: (d) => { const n = d.types.find((t) => t.kind === "node"); return n ? `query all() {\n  match { $n: ${n.name} }\n  return { ${(n.properties.slice(0, 3).map((p) => `$n.${p}`).join(", ")) || "$n.id"} }\n}` : ""; } };
const name = (text) => (/^[a-z_][a-z0-9_]*$/i.test(text) ? text : `"${text.replaceAll('"', '""')}"`);
const TYPES = { csv: "text/csv", jsonl: "application/x-ndjson", arrow: "application/vnd.apache.arrow.stream" };

export default function Console({ data, context, params, state }) {
  const box = useRef(), view = useRef(), cm = useRef(), lang = useRef();
  const [kind, be] = useState(params.lang === "gq" ? "gq" : "sql");
  const [values, setValues] = useState(params.params || "");
  const [found, set] = useState(null);
  const [busy, work] = useState(false);
  const [wrong, fail] = useState(null);
  const [tab, open] = useState("table");
  const [plan, setPlan] = useState(null);
  const [past, setPast] = useState(kept.get(`history ${context.lake}`, []));
  const columns = useRef({});
  const stop = useRef();
  const o = opened();
  const text = () => (view.current ? view.current.state.doc.toString() : "");
  const start = params.query || kept.get(`draft ${context.lake} ${kind}`, null) || STARTS[kind](data);

  useEffect(() => {
    let gone = false;
    import("../vendor/codemirror-6.0.2.js").then((m) => {
      if (gone) return;
      cm.current = m;
      lang.current = new m.Compartment();
      const look = m.EditorView.theme({ "&": { fontSize: "0.84rem", backgroundColor: "transparent" }, ".cm-content": { fontFamily: "var(--q-font-code)", padding: "10px 0", caretColor: "var(--q-text)" }, ".cm-gutters": { backgroundColor: "transparent", color: "var(--q-muted)", border: "0" }, "&.cm-focused": { outline: "0" }, ".cm-cursor": { borderLeftColor: "var(--q-text)" }, "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--q-accent-soft) !important" }, ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" }, ".cm-tooltip": { backgroundColor: "var(--q-raised)", border: "1px solid var(--q-border)", borderRadius: "8px", color: "var(--q-text)" }, ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--q-accent-soft)", color: "var(--q-accent)" }, ".cm-matchingBracket": { backgroundColor: "var(--q-accent-soft) !important" }, ".cm-placeholder": { color: "var(--q-muted)" } });
      const t = m.tags;
      const paint = m.HighlightStyle.define([{ tag: [t.keyword, t.operatorKeyword], color: "var(--q-code-keyword)" }, { tag: [t.string, t.special(t.string)], color: "var(--q-code-string)" }, { tag: [t.number, t.bool, t.null], color: "var(--q-code-number)" }, { tag: [t.typeName, t.standard(t.name), t.variableName], color: "var(--q-code-name)" }, { tag: t.comment, color: "var(--q-code-comment)", fontStyle: "italic" }]);
      view.current = new m.EditorView({
        parent: box.current, doc: start,
        extensions: [m.EditorView.cspNonce.of(current.value.nonce || ""), m.Prec.highest(m.keymap.of([{ key: "Mod-Enter", run: () => { run(); return true; } }])), m.basicSetup, look, m.syntaxHighlighting(paint), lang.current.of(language(m, kind, data, columns.current)), m.lintGutter(), m.EditorView.contentAttributes.of({ "aria-label": "Query" }), m.EditorView.lineWrapping,
          // Where typing replaces what is selected, Chromium writes styles of its own into the text: the policy refuses them.
          m.EditorView.domEventHandlers({ beforeinput: (event, v) => {
            if (event.inputType !== "insertText" || !event.data || v.composing || v.state.selection.main.empty) return false;
            event.preventDefault();
            v.dispatch({ ...v.state.replaceSelection(event.data), userEvent: "input.type", scrollIntoView: true });
            return true;
          } }),
          m.EditorView.updateListener.of((u) => { if (u.docChanged) { kept.set(`draft ${context.lake} ${kindNow.current}`, u.state.doc.toString()); learn(); } })],
      });
      box.current.dataset.ready = "true";
      learn();
      if (params.query && params.run !== "0") run();
    });
    return () => { gone = true; view.current?.destroy(); view.current = null; };
  }, []);
  const kindNow = useRef(kind);
  kindNow.current = kind;
  const timer = useRef();
  const learn = () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(async () => {
      const words = text().toLowerCase();
      if (kindNow.current === "gq") { if (words.trim()) lint(); return; }
      const missing = data.tables.map((t) => t.name).filter((n) => !columns.current[n] && words.includes(n.toLowerCase())).slice(0, 12);
      if (!missing.length) return;
      try {
        const url = new URL(to("columns", { at: data.commit }).replace("/columns", "/columns.json"));
        for (const n of missing) url.searchParams.append("names", n);
        Object.assign(columns.current, (await (await fetch(url)).json()).data.columns);
        view.current?.dispatch({ effects: lang.current.reconfigure(language(cm.current, kindNow.current, data, columns.current)) });
      } catch { /* completion goes without */ }
    }, 250);
  };
  const lint = async () => { try { const s = await post(`lint?at=${encodeURIComponent(data.commit)}`, { query: text() }); mark(s.findings.map((f) => ({ ...f, detail: f.message }))); } catch { /* it says so when it runs */ } };
  const mark = (problems) => {
    const doc = view.current?.state.doc;
    if (!doc) return;
    const places = problems.map((p) => {
      let from = 0, end = doc.length;
      const word = /["']([^"']+)["']/.exec(p.detail || "")?.[1];
      if (p.line && p.line <= doc.lines) { const line = doc.line(p.line); from = Math.min(line.to, line.from + (p.column || 1) - 1); end = line.to; const rest = /^[\w$."]+/.exec(doc.sliceString(from, line.to)); if (rest) end = from + rest[0].length; } else if (word && doc.toString().toLowerCase().includes(word.toLowerCase())) { from = doc.toString().toLowerCase().indexOf(word.toLowerCase()); end = from + word.length; }
      return { from, to: Math.max(end, Math.min(doc.length, from + 1)), severity: p.severity === "warning" ? "warning" : "error", message: `${p.detail}${p.next ? ` ${p.next}` : ""}` };
    });
    view.current.dispatch(cm.current.setDiagnostics(view.current.state, places));
  };
  const given = () => (values.trim() ? JSON.parse(values) : undefined);
  const run = async () => {
    const query = text();
    if (!query.trim()) return;
    stop.current?.abort();
    stop.current = new AbortController();
    work(true);
    fail(null);
    const began = performance.now();
    try {
      const about = { params: { at: data.commit, branch: context.branch === "main" ? null : context.branch }, signal: stop.current.signal };
      const answer = kindNow.current === "sql" ? await api("POST", "sql", { query, limit: 10_000, ...(given() ? { params: given() } : {}) }, about) : await api("POST", "query", { query, limit: 10_000, params: given() || {} }, about);
      set({ ...answer, ms: performance.now() - began, query });
      setPlan(null);
      mark([]);
      const next = [{ query, kind: kindNow.current, at: new Date().toISOString(), rows: answer.rows.length }, ...past.filter((p) => p.query !== query)].slice(0, 50);
      setPast(next);
      kept.set(`history ${context.lake}`, next);
      if (tab === "plan") open("table");
    } catch (error) {
      if (error.name !== "AbortError") { const p = told(error); fail(p); mark([p]); }
    }
    work(false);
  };
  const explain = async () => { open("plan"); if (plan) return; try { setPlan((await post(`plan?at=${encodeURIComponent(data.commit)}`, { query: text(), lang: kind })).plan); } catch (error) { setPlan(""); fail(told(error)); } };
  const change = (next) => { be(next); kindNow.current = next; set(null); fail(null); setPlan(null); const doc = kept.get(`draft ${context.lake} ${next}`, null) || STARTS[next](data); view.current?.dispatch({ changes: { from: 0, to: view.current.state.doc.length, insert: doc }, effects: lang.current.reconfigure(language(cm.current, next, data, columns.current)) }); mark([]); };
  const put = (query, of) => { if (of !== kind) change(of); view.current?.dispatch({ changes: { from: 0, to: view.current.state.doc.length, insert: query } }); view.current?.focus(); };
  const download = async (form) => {
    try {
      const url = new URL(`${o.url}/${kind === "sql" ? "sql" : "query"}`);
      url.searchParams.set("at", data.commit);
      const answer = await fetch(url, { method: "POST", headers: { accept: TYPES[form], "content-type": "application/json" }, body: JSON.stringify({ query: text(), ...(given() ? { params: given() } : {}) }) });
      if (!answer.ok) throw new Error((await answer.json()).detail);
      const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(await answer.blob()), download: `result.${form}` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 5000);
    } catch (error) { say(error.message, "bad"); }
  };
  const share = () => copy(to("sql", { query: text(), lang: kind === "gq" ? "gq" : null, at: data.commit, params: values || null }), "Copied a link to this query at this commit");
  const q = found?.query || start;
  const copies = kind === "sql" ? { python: `${o.python}\nrows = lake.at(commit="${data.commit}").sql(${quoted(q)})\nprint(rows.to_pandas())`, cli: `quire sql ${o.lake}${o.on} --at ${data.commit} ${shell(q)}`, curl: `curl '${o.url}/sql${o.query({ at: data.commit })}' -H 'content-type: application/json' -d ${shell(JSON.stringify({ query: q }))}` }
    : { python: `${o.python}\ngraph = quire.Graph(lake)\nprint(graph.query(${quoted(q)}).to_pandas())`, cli: `quire query ${o.lake}${o.on} queries.gq NAME`, curl: `curl '${o.url}/query${o.query({ at: data.commit })}' -H 'content-type: application/json' -d ${shell(JSON.stringify({ query: q }))}` };
  const fix = wrong && /Did you mean '([^']+)'/.exec(`${wrong.next || ""} ${wrong.detail}`)?.[1];
  const repair = () => { const bad = /["']([^"']+)["']/.exec(wrong.detail)?.[1]; if (!bad) return; put(text().replace(bad, fix), kind); run(); };
  const cols = (found?.columns || []).map((c) => ({ ...c, width: widthOf(c, found.rows) }));
  return html`<${Head} title="Console" copies=${copies} sub=${html`at <${Commit} id=${data.commit} />, <${Time} at=${data.time} />`}>
      <div class="seg" role="group" aria-label="Language">${[["sql", "SQL"], ["gq", "Graph"]].map(([k, w]) => html`<button type="button" class="button" aria-pressed=${kind === k} disabled=${k === "gq" && !data.types.length} onClick=${() => kind !== k && change(k)}>${w}</button>`)}</div><//>
    <div class="console"><section class="panel editor"><div class="code-box" ref=${box}></div>
      <footer><button type="button" class="button primary" onClick=${busy ? () => stop.current.abort() : run}><${Icon} name=${busy ? "close" : "play"} />${busy ? "Stop" : "Run"}</button><span class="small muted hint"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span>
        ${kind === "gq" || values ? html`<label class="params"><span class="small muted">Parameters</span><input class="field code" placeholder='{"name": "Ada"}' value=${values} onInput=${(e) => setValues(e.target.value)} /></label>` : null}<span class="fill"></span>
        ${past.length ? html`<${Menu} label="History" icon="clock" kind="quiet">${() => html`<div class="list">${past.map((p) => html`<button type="button" onClick=${() => put(p.query, p.kind)}><span class="ellipsis code">${p.query.replace(/\s+/g, " ")}</span><kbd>${ago(p.at)}</kbd></button>`)}</div>`}<//>` : null}
        ${Object.keys(data.stored).length && kind === "gq" ? html`<${Menu} label="Stored" kind="quiet">${() => html`<div class="list">${Object.entries(data.stored).map(([n, t]) => html`<button type="button" onClick=${() => put(t, "gq")}>${n}</button>`)}</div>`}<//>` : null}
        <button type="button" class="button quiet" onClick=${share}><${Icon} name="link" /><span>Share</span></button></footer></section>
    ${wrong ? html`<div class="wrong" role="alert"><${Icon} name="warn" /><div><b>${wrong.detail}</b>${wrong.line ? html` <span class="small">line ${wrong.line}${wrong.column ? `, column ${wrong.column}` : ""}</span>` : null}${wrong.next && !fix ? html`<p>${wrong.next}</p>` : null}</div>${fix ? html`<button type="button" class="button" onClick=${repair}>Use ${fix}</button>` : null}</div>` : null}
    <section class="results"><div class="tabs"><div class="tabset" role="tablist" aria-label="Result">${[["table", "Table"], ["chart", "Chart"], ["plan", "Plan"]].map(([n, w]) => html`<button type="button" role="tab" aria-selected=${tab === n} aria-controls="result" onClick=${() => (n === "plan" ? explain() : open(n))}>${w}</button>`)}</div><span class="fill"></span>
        <span class="small muted status" role="status">${busy ? "Running…" : found ? `${plural(found.rows.length, "row")}${found.truncated ? " shown, there are more" : ""} · ${found.ms.toFixed(0)} ms` : ""}</span>${found ? html`<${Menu} label="Download" icon="download" kind="quiet">${["csv", "jsonl", "arrow"].map((f) => html`<button type="button" onClick=${() => download(f)}>${{ csv: "CSV", jsonl: "JSON lines", arrow: "Arrow" }[f]}</button>`)}<//>` : null}</div>
      <div id="result" role="tabpanel" aria-label=${tab}>
      ${tab === "plan" ? (plan === null ? html`<p class="muted pad">…</p>` : html`<pre class="plan" tabindex="0">${plan}</pre>`) : !found ? html`<div class="state small-state"><p>${wrong ? "Nothing to show." : "Write a query and run it. Names complete as you type."}</p></div>` : !found.rows.length ? html`<${Empty} title="No rows">The query is right; nothing fits it.<//>`
        : tab === "chart" ? html`<${Chart} found=${found} />` : html`<${Window} columns=${cols} total=${found.rows.length} first=${found.rows.slice(0, 100)} load=${async (at) => found.rows.slice(at, at + 100)} label="Rows of the result" id=${found.query + found.ms} />`}</div></section></div>`;
}

/** What the editor knows of a language and of the lake. */
function language(m, kind, data, columns) {
  if (kind === "sql") return m.sql({ dialect: m.PostgreSQL, upperCaseKeywords: false, schema: Object.fromEntries(data.tables.map((t) => [t.name, (columns[t.name] || []).map((c) => ({ label: c.name, detail: c.type, type: "property" }))])) });
  const words = ["query", "mutation", "match", "return", "where", "order", "limit", "insert", "update", "delete", "set", "and", "or", "not", "optional", "in", "count", "sum", "avg", "min", "max"];
  const options = [...words.map((w) => ({ label: w, type: "keyword" })), ...data.types.map((t) => ({ label: t.name, type: t.kind === "node" ? "class" : "function", detail: t.kind })), ...[...new Set(data.types.flatMap((t) => t.properties))].map((p) => ({ label: p, type: "property" }))];
  const reader = m.StreamLanguage.define({ token(s) { if (s.eatSpace()) return null; if (s.match(/^(\/\/|#).*/)) return "comment"; if (s.match(/^"(?:[^"\\]|\\.)*"/)) return "string"; if (s.match(/^-?\d+(\.\d+)?/)) return "number"; if (s.match(/^\$\w+/)) return "variableName"; const w = s.match(/^[A-Za-z_]\w*/); if (w) return words.includes(w[0]) ? "keyword" : /^[A-Z]/.test(w[0]) ? "typeName" : "propertyName"; s.next(); return null; } });
  return [reader, reader.data.of({ autocomplete: (c) => { const before = c.matchBefore(/[\w$]+/); return !before && !c.explicit ? null : { from: before ? before.from : c.pos, options, validFor: /^\w*$/ }; } })];
}

/** Numbers as a picture: lines over numbers and times, bars over words. */
function Chart({ found }) {
  const numbers = found.columns.filter((c) => isNumber(c.type)).map((c) => c.name);
  const all = found.columns.map((c) => c.name);
  const [x, setX] = useState(all.find((n) => !numbers.includes(n)) || all[0]);
  const [y, setY] = useState(numbers.find((n) => n !== x) || numbers[0]);
  const box = useRef();
  const type = found.columns.find((c) => c.name === x)?.type || "";
  const time = /^(timestamp|date)/.test(type);
  const words = !isNumber(type) && !time;
  useEffect(() => {
    if (words || !y) return undefined;
    let plot, gone = false;
    const sheet = new URL("../vendor/uplot-1.6.32.css", import.meta.url).href;
    if (!document.querySelector(`link[href="${sheet}"]`)) document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: sheet }));
    import("../vendor/uplot-1.6.32.js").then(({ uPlot }) => {
      if (gone) return;
      const rows = found.rows.filter((r) => r[x] !== null && r[y] !== null).map((r) => [time ? new Date(r[x]) / 1000 : Number(r[x]), Number(r[y])]).sort((a, b) => a[0] - b[0]);
      const style = getComputedStyle(document.documentElement);
      const c = (n) => { const p = document.createElement("i"); p.style.color = `var(${n})`; document.body.append(p); const v = getComputedStyle(p).color; p.remove(); return v; };
      const axis = { stroke: c("--q-muted"), grid: { stroke: c("--q-border"), width: 1 }, ticks: { stroke: c("--q-border"), width: 1 } };
      plot = new uPlot({ width: box.current.clientWidth, height: 340, scales: { x: { time } }, legend: { live: true }, axes: [{ ...axis }, { ...axis, size: 64 }], series: [{ label: x }, { label: y, stroke: c("--q-accent"), width: 1.5, points: { show: rows.length < 200 } }] }, [rows.map((r) => r[0]), rows.map((r) => r[1])], box.current);
    });
    const fit = () => plot?.setSize({ width: box.current.clientWidth, height: 340 });
    addEventListener("resize", fit);
    return () => { gone = true; removeEventListener("resize", fit); plot?.destroy(); };
  }, [found, x, y]);
  if (!numbers.length) return html`<${Empty} title="No numbers to draw">Ask for a column that holds numbers, such as a count.<//>`;
  const bars = words ? found.rows.slice(0, 40) : [];
  const most = Math.max(1e-9, ...bars.map((r) => Math.abs(Number(r[y]) || 0)));
  return html`<div class="panel pad chart"><div class="chips"><label>Across <select class="field" value=${x} onChange=${(e) => setX(e.target.value)}>${all.map((n) => html`<option>${n}</option>`)}</select></label><label>Up <select class="field" value=${y} onChange=${(e) => setY(e.target.value)}>${numbers.map((n) => html`<option>${n}</option>`)}</select></label></div>
    ${words ? html`<dl class="barchart">${bars.map((r) => html`<div><dt class="ellipsis" title=${shown(r[x])}>${shown(r[x])}</dt><dd><i style=${{ width: `${(100 * Math.abs(Number(r[y]) || 0)) / most}%` }}></i><span>${shown(r[y])}</span></dd></div>`)}</dl>${found.rows.length > 40 ? html`<p class="small muted">The first 40 of ${count(found.rows.length)}.</p>` : null}` : html`<div ref=${box} class="plot" role="img" aria-label=${`${y} over ${x}`}></div>`}</div>`;
}
