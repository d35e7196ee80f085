// One table: its columns with what they hold, its rows in a window of any length, its versions.
import { html, useState, useEffect, useMemo, to, go, twin, count, bytes, plural, shown, typeName, opened, quoted, shell, told, compact, copy } from "../lib.js";
import { Head, Window, Icon, Spark, Empty, Commit, Time, Wrong, Cell, Dialog, Skeleton, Who, Delta, widthOf } from "../parts.js";
import { Filters, narrowing, condition } from "./filters.js";

const TABS = [["rows", "Rows"], ["columns", "Columns"], ["versions", "Versions"]];

export default function Table({ data, params, context }) {
  const { table } = data;
  const [tab, turn] = useState(TABS.some(([name]) => `#${name}` === location.hash) ? location.hash.slice(1) : "rows");
  const open = (name) => { turn(name); history.replaceState(null, "", `#${name}`); };
  const [profile, setProfile] = useState(null);
  const [row, show] = useState(null);
  const narrowed = narrowing(params);
  const filter = narrowed.filter.length > 1 ? narrowed.filter.map((one) => `(${one})`).join(" and ") : narrowed.filter[0];
  const isNarrowed = Boolean(filter || narrowed.search || narrowed.like || narrowed.vector);
  const at = data.commit;
  const o = opened();
  useEffect(() => { if (table.rows) twin("profile", { name: table.name, at }).then((s) => setProfile(s.data), () => setProfile({ columns: [] })); }, [table.name, at]);
  const about = useMemo(() => Object.fromEntries((profile?.columns || []).map((c) => [c.name, c])), [profile]);
  // What a search adds stands first, since it says why a row is here.
  const columns = useMemo(() => [...data.columns].sort((a, b) => b.name.startsWith("_") - a.name.startsWith("_")).map((c) => ({ ...c, width: widthOf(c, data.rows) })), [data]);
  const load = async (offset) => (await twin("rows", { name: table.name, at, ...narrowed, offset })).data.rows;
  const clear = () => go(to("table", { name: table.name }), { replace: true });
  const keyOf = (r) => (table.key.length ? Object.fromEntries(table.key.map((n) => [n, r[n]])) : null);
  const like = (r) => { show(null); go(to("table", { name: table.name, filter: narrowed.filter, like: JSON.stringify(keyOf(r)), vector_column: data.vectors[0] }), { replace: true }); };
  const only = (column, value) => { show(null); go(to("table", { name: table.name, ...narrowed, filter: [...narrowed.filter, condition(column, "=", value)] }), { replace: true }); };
  const where = [filter ? `filter=${quoted(filter)}` : null, "limit=100"].filter(Boolean).join(", ");
  const { vector } = data;
  const ranked = [narrowed.search ? `text=${quoted(narrowed.search)}` : null, vector ? `vector=${vector}` : null].filter(Boolean).join(", ");
  const copies = {
    python: `${o.python}\ntable = lake.${context.at ? `at(commit="${at}")` : "snapshot()"}[${quoted(table.name)}]\n${ranked ? `rows = table.search(${ranked}${filter ? `, filter=${quoted(filter)}` : ""}, limit=100)` : `rows = table.scan(${where})`}\nprint(rows.to_pandas())`,
    cli: ranked ? `quire search ${o.lake}${o.on} ${shell(table.name)}${narrowed.search ? ` --text ${shell(narrowed.search)}` : ""}${vector ? ` --vector ${shell(vector)}` : ""}` : `quire sql ${o.lake}${o.on} ${shell(`select * from "${table.name}"${filter ? ` where ${filter}` : ""} limit 100`)}`,
    curl: `curl '${o.url}/tables/${encodeURIComponent(table.name)}/rows${o.query({ at: context.at ? at : null, filter, search: narrowed.search, vector, limit: 100 })}'`,
  };
  const tabs = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = TABS[(TABS.findIndex(([t]) => t === tab) + step + TABS.length) % TABS.length][0];
    open(next);
    event.currentTarget.querySelector(`[data-tab=${next}]`)?.focus();
  };
  const head = (c) => html`<span class="name">${table.key.includes(c.name) ? html`<${Icon} name="key" size=${12} />` : null}${c.name}</span><span class="type" title=${c.type}>${typeName(c.type)}</span>
    <span class="holds">${!profile && table.rows && !c.name.startsWith("_") ? html`<span class="wait"></span>` : about[c.name] ? (about[c.name].bins.length ? html`<${Spark} bars values=${about[c.name].bins} width=${Math.min(120, c.width - 26)} height=${18} label=${`${c.name}: how its values spread`} />` : about[c.name].top.length ? html`<span class="shares" role="img" aria-label=${`${c.name}: ${about[c.name].top.map((t) => t.value).join(", ")}`}>${about[c.name].top.map((t, i) => html`<i class=${`share-${i}`} style=${{ flexGrow: t.count }}></i>`)}</span>` : html`<small>${about[c.name].distinct ? `${compact(about[c.name].distinct)} distinct` : ""}</small>`) : null}</span>`;
  return html`<${Head} title=${table.name} copies=${copies} link=${to("table", { name: table.name, at, ...narrowed })}
      kind=${table.key.length ? html`<span class="chip plain"><${Icon} name="key" size=${12} />${table.key.join(", ")}</span>` : html`<span class="chip plain">no key</span>`}
      sub=${html`${plural(table.rows, "row")} · ${bytes(table.bytes)} · ${plural(table.columns.length, "column")} · version ${table.version} by <${Commit} id=${table.commit} /> · ${table.format}`}><a class="button" href=${to("sql", { query: `select * from "${table.name}"\nlimit 100` })}><${Icon} name="sql" />Query</a><//>
    <div class="tabs" role="tablist" aria-label="Of this table" onKeyDown=${tabs}>${TABS.map(([name, words]) => html`<button type="button" role="tab" data-tab=${name} id=${`tab-${name}`} aria-selected=${tab === name} aria-controls="tab" tabindex=${tab === name ? 0 : -1} onClick=${() => open(name)}>${words}${name === "columns" ? html` <small>${table.columns.length}</small>` : null}</button>`)}</div>
    <div id="tab" role="tabpanel" aria-labelledby=${`tab-${tab}`}>
    ${tab === "rows" ? html`<${Filters} table=${table} columns=${table.columns} params=${params} vectors=${data.vectors} total=${data.total} ranked=${data.ranked} />
      ${data.total ? html`<${Window} columns=${columns} total=${data.total} first=${data.rows} load=${load} head=${head} label=${`Rows of ${table.name}`} keys=${table.key} onRow=${(r) => show(r)} id=${`${table.name} ${at} ${JSON.stringify(narrowed)}`} />`
        : html`<${Empty} title=${isNarrowed ? "No row fits" : "No rows yet"} code=${isNarrowed ? null : `${o.python}\nwith lake.transaction() as tx:\n    tx[${quoted(table.name)}].append(rows)`}>${isNarrowed ? html`<button type="button" class="button" onClick=${clear}>Show all rows</button>` : "The table has its columns, and waits for rows."}<//>`}` : null}
    ${tab === "columns" ? html`<${Columns} table=${table} about=${about} profile=${profile} />` : null}
    ${tab === "versions" ? html`<${Versions} name=${table.name} />` : null}</div>
    ${row ? html`<${Dialog} title="One row" close=${() => show(null)} wide><${Row} row=${row} table=${table} columns=${columns} only=${only} like=${data.vectors.length && table.key.length && row[data.vectors[0]] ? () => like(row) : null} /><//>` : null}`;
}

function Columns({ table, about, profile }) {
  const indexed = (name) => table.indexes.filter((i) => JSON.stringify(i.columns || i.fields || i.column || "").includes(`"${name}"`));
  return html`<div class="panel"><div class="scroll" tabindex="0" role="region" aria-label="Columns"><table class="list"><thead><tr><th scope="col">Column</th><th scope="col">Type</th><th scope="col" class="num">Null</th><th scope="col">Holds</th><th scope="col" class="num">Least</th><th scope="col" class="num">Greatest</th><th scope="col">Index</th></tr></thead><tbody>
    ${table.columns.map((c) => { const a = about[c.name]; return html`<tr><th scope="row">${table.key.includes(c.name) ? html`<${Icon} name="key" size=${12} /> ` : null}${c.name}</th><td><code title=${c.type}>${typeName(c.type)}</code>${c.nullable ? "" : html` <span class="chip plain">required</span>`}</td><td class="num">${!profile && table.rows ? html`<span class="wait"></span>` : a ? `${((100 * a.nulls) / Math.max(1, profile.of)).toFixed(a.nulls ? 1 : 0)} %` : ""}</td>
      <td class="holds-cell">${!profile && table.rows ? html`<span class="wait"></span>` : a?.bins.length ? html`<${Spark} bars values=${a.bins} width=${140} height=${24} />` : a?.top.length ? html`<span class="tops">${a.top.slice(0, 4).map((t) => html`<span><span class="ellipsis">${shown(t.value)}</span> <small class="muted">${compact(t.count)}</small></span>`)}</span>` : a?.distinct ? html`<span class="muted small">${count(a.distinct)} distinct</span>` : null}</td><td class="num ellipsis">${a && a.least !== null ? shown(a.least) : ""}</td><td class="num ellipsis">${a && a.greatest !== null ? shown(a.greatest) : ""}</td><td>${indexed(c.name).map((i) => html`<span class="chip plain">${i.kind || i.type || i.index_type || i.name}</span>`)}</td></tr>`; })}
  </tbody></table></div>${profile && profile.of < profile.total ? html`<p class="muted small pad">Told by the first ${count(profile.of)} of ${count(profile.total)} rows.</p>` : null}</div>`;
}

function Versions({ name }) {
  const [found, set] = useState(null);
  const [wrong, fail] = useState(null);
  const ask = () => twin("versions", { name, at: null }).then((s) => set(s.data), (e) => fail(told(e)));
  useEffect(() => { ask(); }, [name]);
  if (wrong) return html`<${Wrong} problem=${wrong} retry=${ask} />`;
  if (!found) return html`<${Skeleton} />`;
  return html`<ol class="panel rows">${found.versions.map((c) => html`<li><a class="main" href=${to("commit", { id: c.id })}>${c.message || html`<i>no message</i>`}</a><span><${Delta} added=${c.tables[name].added} removed=${c.tables[name].removed} /></span><span class="chip plain">${c.tables[name].ops.join(", ")}</span><${Who} name=${c.author} /><${Time} at=${c.time} /><a class="button small" href=${to("table", { name, at: c.id })}>Look at v${c.tables[name].version}</a></li>`)}</ol><p class="muted small">Of the newest ${count(found.looked)} commits of this branch.</p>`;
}

function Row({ row, table, columns, only, like }) {
  const key = table.key.length ? Object.fromEntries(table.key.map((n) => [n, row[n]])) : null;
  const [past, set] = useState(null);
  const [wrong, fail] = useState(null);
  const ask = () => twin("row", { name: table.name, key: JSON.stringify(key), at: null }).then((s) => set(s.data.versions), (e) => fail(told(e)));
  return html`<dl class="values">${columns.map((c) => html`<div><dt>${c.name}<small>${typeName(c.type)}</small>${table.columns.some((own) => own.name === c.name) && (row[c.name] === null || typeof row[c.name] !== "object") ? html`<button type="button" class="linkish small" aria-label=${`Only rows with this ${c.name}`} onClick=${() => only(c, row[c.name])}>only these</button>` : null}</dt><dd>${row[c.name] !== null && typeof row[c.name] === "object" ? html`<pre tabindex="0">${JSON.stringify(row[c.name], null, Array.isArray(row[c.name]) && row[c.name].every((one) => typeof one !== "object") ? 0 : 1)}</pre>` : html`<${Cell} value=${row[c.name]} />`}</dd></div>`)}</dl>
    <div class="actions">${like ? html`<button type="button" class="button" onClick=${like}><${Icon} name="near" />Rows like this one</button>` : null}<button type="button" class="button" onClick=${() => copy(JSON.stringify(row, null, 2), "Copied the row")}>Copy as JSON</button>${key ? html`<button type="button" class="button" onClick=${ask}>History of this row</button>` : null}</div>
    ${wrong ? html`<${Wrong} problem=${wrong} />` : null}
    ${past ? html`<ol class="rows">${past.map((v) => html`<li><${Commit} id=${v.commit} /><span class="main">${v.op || v.kind || ""} ${(v.columns || v.changed || []).join?.(", ") || ""}</span><${Who} name=${v.author} /><${Time} at=${v.time} /></li>`)}</ol>` : null}`;
}
