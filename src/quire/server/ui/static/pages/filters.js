// What a table is narrowed to: conditions as chips, made by hand or in SQL; search by text, by a vector, by both.
import { html, useState, useEffect, go, to, count, isNumber, shown, typeName } from "../lib.js";
import { Icon, Menu, Wrong } from "../parts.js";

const OPERATORS = [["=", "is"], ["<>", "is not"], ["<", "less than"], ["<=", "at most"], [">", "more than"], [">=", "at least"], ["has", "has the text"], ["is null", "is null"], ["is not null", "is not null"]];
/** Quoted whatever it is: many words are words of SQL. */
export const named = (column) => `"${column.replaceAll('"', '""')}"`;
const literal = (text) => `'${String(text).replaceAll("'", "''")}'`;

/** One condition in SQL. */
export function condition(column, operator, value) {
  const name = named(column.name);
  if (operator.startsWith("is ")) return `${name} ${operator}`;
  if (operator === "has") return `${name} ilike ${literal(`%${value}%`)}`;
  if (value === null) return `${name} ${operator === "<>" ? "is not null" : "is null"}`;
  return `${name} ${operator} ${isNumber(column.type) || column.type === "bool" ? String(value).trim() : literal(value)}`;
}

/** What an address says of the rows that are shown. */
export const narrowing = (params) => ({ filter: params.filter || [], search: params.search, like: params.like, vector: params.vector, vector_column: params.vector_column });

export function Filters({ table, columns, params, vectors, total, ranked }) {
  const now = narrowing(params);
  const [sql, type] = useState("");
  const [text, typeText] = useState(now.search || "");
  useEffect(() => typeText(now.search || ""), [now.search]);
  const hasText = table.indexes.some((index) => /fts|inverted/i.test(JSON.stringify(index)));
  const [wrong, fail] = useState(null);
  const change = (next) => { fail(null); return go(to("table", { name: table.name, ...now, ...next }), { replace: true, refused: fail }); };
  const add = (one) => { if (one.trim()) change({ filter: [...now.filter, one.trim()] }); };
  const near = now.like || now.vector;
  const chips = [
    ...now.filter.map((one, n) => [html`<code>${one}</code>`, one, { filter: now.filter.filter((_, m) => m !== n) }]),
    ...(now.search ? [[html`<${Icon} name="search" size=${12} />“${now.search}”`, `the text ${now.search}`, { search: null }]] : []),
    ...(near ? [[html`<${Icon} name="near" size=${12} />${now.like ? `like ${told(now.like)}` : "near a vector"}${vectors.length > 1 && now.vector_column ? ` by ${now.vector_column}` : ""}`, "the vector", { like: null, vector: null, vector_column: null }]] : []),
  ];
  return html`<div class="narrow"><${Menu} label="Filter" icon="filter">${() => html`<${Build} columns=${columns} add=${add} />`}<//>
      <form class="grow-form" onSubmit=${(event) => { event.preventDefault(); add(sql); type(""); }}><label class="grow"><span class="hidden">A condition in SQL</span><input class="field code" placeholder=${example(columns)} value=${sql} onInput=${(e) => type(e.target.value)} /></label></form>
      ${hasText || near ? html`<form onSubmit=${(event) => { event.preventDefault(); change({ search: text }); }}><label class="find-text"><span class="hidden">Search the text</span><input class="field" type="search" placeholder="Search the text" value=${text} onInput=${(e) => typeText(e.target.value)} /></label></form>` : null}
      ${vectors.length ? html`<${Menu} label="Nearest" icon="near" title="Search by a vector">${() => html`<${Nearest} vectors=${vectors} change=${change} now=${now} keyed=${table.key.length > 0} />`}<//>` : null}
      <span class="muted small count">${ranked ? `the ${count(total)} nearest` : `${count(total)} ${total === 1 ? "row" : "rows"}`}</span></div>
    ${wrong ? html`<${Wrong} problem=${wrong} />` : null}
    ${chips.length ? html`<div class="chips filters" role="group" aria-label="Rows that are shown">${chips.map(([words, name, without]) => html`<span class="chip">${words}<button type="button" aria-label=${`Take away ${name}`} onClick=${() => change(without)}><${Icon} name="close" size=${12} /></button></span>`)}<button type="button" class="button quiet small" onClick=${() => { fail(null); go(to("table", { name: table.name }), { replace: true }); }}>Clear all</button></div>` : null}`;
}

const told = (key) => { try { const value = JSON.parse(key); return typeof value === "object" ? Object.entries(value).map(([n, v]) => `${n} ${shown(v)}`).join(", ") : shown(value); } catch { return key; } };
const example = (columns) => { const first = columns[0]; return `Or in SQL, such as ${first ? `${/^[a-z_]+$/.test(first.name) ? first.name : named(first.name)} ${isNumber(first.type) ? "> 10" : "= 'a'"}` : "true"}`; };

/** A condition put together by hand. */
function Build({ columns, add }) {
  const plain = columns.filter((c) => !/[<\[{]/.test(c.type) || /^timestamp/.test(c.type));
  const [name, choose] = useState(plain[0]?.name);
  const [operator, be] = useState("=");
  const [value, type] = useState("");
  const column = plain.find((c) => c.name === name);
  if (!column) return html`<p class="muted pad small">No column here holds plain values: write the condition in SQL.</p>`;
  const needs = !operator.startsWith("is ");
  return html`<form class="form" onSubmit=${(event) => { event.preventDefault(); add(condition(column, operator, value)); }}>
    <label>Column<select class="field" value=${name} onChange=${(e) => choose(e.target.value)}>${plain.map((c) => html`<option value=${c.name}>${c.name} (${typeName(c.type)})</option>`)}</select></label>
    <label>Condition<select class="field" value=${operator} onChange=${(e) => be(e.target.value)}>${OPERATORS.filter(([o]) => o !== "has" || /string/.test(column.type)).map(([o, words]) => html`<option value=${o}>${words}</option>`)}</select></label>
    ${needs ? html`<label>Value<input class="field" required=${operator !== "="} type=${isNumber(column.type) ? "number" : "text"} step="any" placeholder=${column.type === "bool" ? "true or false" : ""} value=${value} onInput=${(e) => type(e.target.value)} /></label>` : null}
    <div class="actions"><button class="button primary small stay">Add</button></div></form>`;
}

/** The rows nearest to a vector that is pasted; a row's own vector is searched by from the row. */
function Nearest({ vectors, change, now, keyed }) {
  const [column, choose] = useState(now.vector_column || vectors[0]);
  const [vector, type] = useState(now.vector || "");
  return html`<form class="form" onSubmit=${(event) => { event.preventDefault(); change({ vector, vector_column: column, like: null }); }}>
    ${vectors.length > 1 ? html`<label>Column<select class="field" value=${column} onChange=${(e) => choose(e.target.value)}>${vectors.map((name) => html`<option>${name}</option>`)}</select></label>` : null}
    <label>Vector<textarea class="field code" rows="3" required placeholder="[0.12, 0.5, …]" value=${vector} onInput=${(e) => type(e.target.value)}></textarea></label>
    ${keyed ? html`<p class="muted small">Or open a row, and search for rows like it.</p>` : null}
    <div class="actions"><button class="button primary small stay">Search</button></div></form>`;
}
