// What pages are made of. Each part is a function of what it is given.
import { html, useState, useEffect, useRef, useLayoutEffect, copy, say, ago, moment, count, compact, bytes, plural, shown, typeName, isNumber, to, current, go, again, opened } from "./lib.js";

const PATHS = {
  table: "M3 5h18v14H3zM3 10h18M9 10v9", commits: "M6 3v3.500M6 11.500V21M6 6.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5zM18 12.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5zM8.500 9H14a4 4 0 0 1 4 3.500", sql: "M4 6l5 6-5 6M12 18h8",
  graph: "M6 4a2.300 2.300 0 1 0 0 4.600A2.300 2.300 0 0 0 6 4zM18 8.200a2.300 2.300 0 1 0 0 4.600 2.300 2.300 0 0 0 0-4.600zM9.500 16a2.300 2.300 0 1 0 0 4.600 2.300 2.300 0 0 0 0-4.600zM8.200 7l7.600 2.800M6.700 8.500l2.100 7.600M16.500 12.200L11.200 16.800", schema: "M4 4h7v6H4zM13 14h7v6h-7zM7.5 10v7h5.500", requests: "M6 3.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5zM6 8.500V20.500M18 15.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5zM18 15.500V10a4 4 0 0 0-4-4h-2.500M14 3l-3 3 3 3",
  live: "M3 12h4l3 7 4-14 3 7h4", upkeep: "M14.5 6.500a4 4 0 0 0-5.300 5.300L4 17l3 3 5.200-5.200a4 4 0 0 0 5.300-5.300L15 12l-3-3z", search: "M11 5a6 6 0 1 0 0 12 6 6 0 0 0 0-12zM20 20l-4.500-4.500",
  branch: "M7 5v14M7 15a8 8 0 0 0 10-7", tag: "M4 12V5a1 1 0 0 1 1-1h7l8 8-8 8zM8.500 8.500h.010", copy: "M9 9h11v11H9zM5 15H4V4h11v1", link: "M10 14l4-4M8 12l-2 2a3.500 3.500 0 0 0 5 5l2-2M16 12l2-2a3.500 3.500 0 0 0-5-5l-2 2",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.500 1.500M17.500 17.500L19 19M5 19l1.500-1.500M17.500 6.500L19 5", moon: "M20 14A8 8 0 1 1 10 4a7 7 0 0 0 10 10z",
  auto: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 3v18M12 7h5M12 11h8M12 15h7", key: "M14 10a4 4 0 1 0-1.200 2.800L20 20l2-2M17 17l2-2", close: "M6 6l12 12M18 6L6 18", down: "M6 9l6 6 6-6", right: "M9 6l6 6-6 6",
  more: "M5 12h.010M12 12h.010M19 12h.010", plus: "M12 5v14M5 12h14", check: "M5 12l5 5L20 7", warn: "M12 4l9 16H3zM12 10v4M12 17h.010", clock: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4l3 2",
  lock: "M6 11h12v9H6zM9 11V8a3 3 0 0 1 6 0v3", node: "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10z", edge: "M4 12h16M15 7l5 5-5 5", undo: "M9 14L4 9l5-5M4 9h10a6 6 0 0 1 0 12h-3", pin: "M9 4h6l-1 6 4 4H6l4-4zM12 14v6", download: "M12 4v12M7 11l5 5 5-5M4 20h16",
  filter: "M4 5h16M7 12h10M10.500 19h3", near: "M12 10.500a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3zM12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10z", home: "M4 11l8-7 8 7v9h-5v-6H9v6H4z", keyboard: "M3 7h18v10H3zM7 11h.010M11 11h.010M15 11h.010M8 14h8", play: "M8 5l11 7-11 7z", merge: "M7 5v14M7 5c0 6 4 8 10 8M14 10l3 3-3 3",
};
export const Icon = ({ name, size = 16 }) => html`<svg class="icon" width=${size} height=${size} viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.800" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${PATHS[name] || ""} /></svg>`;

export const Time = ({ at }) => html`<time datetime=${at} title=${moment(at)}>${ago(at)}</time>`;
export const Commit = ({ id, branch }) => html`<a class="commit-id" href=${to("commit", { id, branch: branch || current.value.context.branch })}>${id}</a>`;

const hue = (name) => [...name].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) >>> 0, 7) % 8;
export const laneOf = (name) => (name === "main" ? 0 : 1 + (hue(name) % 7));
export const Branch = ({ name, href }) => html`<a class="chip branch lane-${laneOf(name)}" href=${href || to("commits", { branch: name })}><${Icon} name="branch" size=${13} />${name}</a>`;
export const Tag = ({ name, commit }) => html`<a class="chip tag" href=${to("tables", { at: commit })}><${Icon} name="tag" size=${13} />${name}</a>`;
export const Who = ({ name }) => html`<span class="who"><span class="face lane-${1 + (hue(name || "?") % 7)}" aria-hidden="true">${(name || "?")[0].toUpperCase()}</span>${name || "unknown"}</span>`;

export const Delta = ({ added = 0, changed = 0, removed = 0 }) => html`<span class="delta">
  ${added ? html`<span class="added">+${compact(added)}</span>` : null}
  ${changed ? html`<span class="changed">~${compact(changed)}</span>` : null}
  ${removed ? html`<span class="removed">−${compact(removed)}</span>` : null}
  ${!added && !changed && !removed ? html`<span class="muted">0</span>` : null}</span>`;

/** A line of numbers in the height of a line of text. */
export function Spark({ values, width = 88, height = 22, bars = false, stretch = false, label }) {
  if (!values?.length) return html`<span class="spark" style=${{ width: `${width}px`, height: `${height}px` }}></span>`;
  const most = Math.max(...values) || 1, least = bars ? 0 : Math.min(...values), span = most - least || 1;
  if (bars) {
    const each = width / values.length;
    return html`<svg class="spark" width=${width} height=${height} ...${stretch ? { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" } : {}} role="img" aria-label=${label || "distribution"}>${values.map((v, i) => html`<rect x=${i * each} width=${Math.max(1, each - 1)} y=${height - Math.max(v ? 1.5 : 0, (v / most) * height)} height=${Math.max(v ? 1.5 : 0, (v / most) * height)} rx="1" />`)}</svg>`;
  }
  const all = values.length === 1 ? [values[0], values[0]] : values;
  const at = (v, i) => [(i / (all.length - 1)) * (width - 4) + 2, height - 3 - ((v - least) / span) * (height - 6)];
  const points = all.map((v, i) => at(v, i).map((n) => n.toFixed(1)).join(","));
  const [x, y] = at(all[all.length - 1], all.length - 1);
  return html`<svg class="spark" width=${width} height=${height} role="img" aria-label=${label || "rows over the last commits"}>
    <path class="area" d=${`M2,${height} L${points.join(" L")} L${width - 2},${height} Z`} /><polyline points=${points.join(" ")} /><circle cx=${x} cy=${y} r="2" /></svg>`;
}

/** What a page took: requests to the store, how many had to wait for another, bytes. */
export function Cost({ cost }) {
  if (!cost) return null;
  const all = (cost.total || 0) + (cost.lance || 0);
  return html`<span class="cost" title=${`${plural(all, "request")} to the store, ${plural(cost.hops || 0, "hop")} one after another, ${bytes(cost.bytes_in || 0)} read, ${(1000 * (cost.seconds || 0)).toFixed(1)} ms`}>
    <b>${count(all)}</b> req <i>·</i> <b>${cost.hops || 0}</b> hops ${cost.bytes_in ? html`<i>·</i> <b>${bytes(cost.bytes_in)}</b>` : null}</span>`;
}

// -- menus and dialogs -------------------------------------------------------------------------------------------

export function Menu({ label, icon, children, kind = "", title }) {
  const [open, set] = useState(false);
  const ref = useRef();
  useEffect(() => {
    if (!open) return undefined;
    const off = (event) => { if (!ref.current?.contains(event.target)) set(false); };
    const key = (event) => { if (event.key === "Escape") { set(false); ref.current?.querySelector("button")?.focus(); } };
    document.addEventListener("pointerdown", off);
    document.addEventListener("keydown", key);
    ref.current.querySelector(".menu a, .menu button, .menu input")?.focus();
    return () => { document.removeEventListener("pointerdown", off); document.removeEventListener("keydown", key); };
  }, [open]);
  const move = (event) => {
    if ((event.key !== "ArrowDown" && event.key !== "ArrowUp") || event.target.tagName === "SELECT") return;
    const items = [...ref.current.querySelectorAll(".menu a, .menu button, .menu input")];
    const at = items.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    items[(at + items.length) % items.length]?.focus();
    event.preventDefault();
  };
  return html`<div class="drop" ref=${ref} onKeyDown=${open ? move : undefined}>
    <button type="button" class="button ${kind}" aria-expanded=${open} aria-haspopup="true" title=${title} aria-label=${title} onClick=${() => set(!open)}>${icon ? html`<${Icon} name=${icon} />` : null}<span>${label}</span><${Icon} name="down" size=${12} /></button>
    ${open ? html`<div class="menu" onClick=${(event) => { if (event.target.closest("a, button:not(.stay)")) set(false); }} onSubmit=${() => set(false)}>${typeof children === "function" ? children() : children}</div>` : null}
  </div>`;
}

export function Dialog({ title, close, children, wide = false }) {
  const ref = useRef();
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${ref} class=${wide ? "dialog wide" : "dialog"} aria-label=${title} onCancel=${(e) => { e.preventDefault(); close(); }} onClick=${(e) => { if (e.target === ref.current) close(); }}>
    <div class="inside"><header><h2>${title}</h2><button type="button" class="button quiet" aria-label="Close" onClick=${close}><${Icon} name="close" /></button></header>${children}</div></dialog>`;
}

/** The same as Python, on the command line and over HTTP. */
export function CopyAs({ copies }) {
  const [shownAs, show] = useState(null);
  if (!copies) return null;
  const names = { python: "Python", cli: "Command line", curl: "curl" };
  return html`<${Menu} label="Copy as" icon="copy" kind="quiet" title="Copy this page as Python, a command or curl">
    ${Object.entries(names).map(([key, name]) => html`<button type="button" onClick=${() => copy(copies[key], `Copied as ${name}`)}><span>${name}</span><kbd>${copies[key].split("\n").length} lines</kbd></button>`)}
    <hr /><button type="button" onClick=${() => show(true)}>Show all three</button>
  <//>${shownAs ? html`<${Dialog} title="The same elsewhere" wide close=${() => show(null)}>${Object.entries(names).map(([key, name]) => html`<section class="snippet"><h3>${name}</h3><pre tabindex="0"><code>${copies[key]}</code></pre><button type="button" class="button" onClick=${() => copy(copies[key], `Copied as ${name}`)}>Copy</button></section>`)}<//>` : null}`;
}

/** The head of a page: what it is, of which commit, what it cost, and how to take it along. */
export function Head({ title, kind, children, copies, link, sub }) {
  const state = current.value;
  return html`<header class="head"><div class="title"><h1>${title}</h1>${kind}${sub ? html`<p>${sub}</p>` : null}</div>
    <div class="tools">${children}${link ? html`<button type="button" class="button quiet" title="Copy a link that always shows this commit" onClick=${() => copy(link, "Copied the permalink")}><${Icon} name="link" /><span>Permalink</span></button>` : null}
    <${CopyAs} copies=${copies} /><${Cost} cost=${state.cost} /></div></header>`;
}

// -- states ------------------------------------------------------------------------------------------------------

export const Empty = ({ icon = "table", title, children, code }) => html`<div class="state"><div class="picture"><${Icon} name=${icon} size=${28} /></div><h2>${title}</h2>
  <div class="words">${children}</div>${code ? html`<div class="code"><pre tabindex="0"><code>${code}</code></pre><button type="button" class="button" onClick=${() => copy(code)}>Copy</button></div>` : null}</div>`;

export const Skeleton = ({ rows = 6 }) => html`<div class="skeleton" aria-busy="true" aria-label="Loading">${Array.from({ length: rows }, (_, i) => html`<span style=${{ width: `${90 - ((i * 17) % 45)}%` }}></span>`)}</div>`;

/** An error where it happened, with its next step. */
export const Wrong = ({ problem, retry }) => html`<div class="wrong" role="alert"><${Icon} name="warn" /><div><b>${problem.detail}</b>${problem.next ? html`<p>${problem.next}</p>` : null}</div>
  ${retry ? html`<button type="button" class="button" onClick=${retry}>Try again</button>` : null}</div>`;

// -- tables ------------------------------------------------------------------------------------------------------

export const Cell = ({ value, type }) => {
  if (value === null || value === undefined) return html`<span class="null">null</span>`;
  if (typeof value === "boolean") return html`<span class="bool ${value}">${String(value)}</span>`;
  const text = shown(value);
  return isNumber(type) ? text : html`<span title=${text.length > 30 ? text.slice(0, 2000) : undefined}>${text.length > 300 ? `${text.slice(0, 300)}…` : text}</span>`;
};

const ROW = 34;
const TALLEST = 6_000_000;
export const widthOf = (column, rows) => {
  const longest = Math.max(column.name.length + 3, Math.min(18, typeName(column.type).length), ...rows.slice(0, 40).map((row) => Math.min(42, shown(row[column.name]).length)));
  return Math.round(Math.min(340, Math.max(isNumber(column.type) ? 104 : 118, longest * 7.6 + 30)));
};

/**
 * Rows of any number in a window. `load(offset)` gives the hundred rows from there; only what is looked at is asked for.
 * A window of more rows than a browser can scroll is scaled, and the wheel still moves by rows.
 */
export function Window({ columns, total, first, load, head, label, onRow, keys = [], id }) {
  const ref = useRef();
  const blocks = useRef(new Map([[0, first]]));
  const asked = useRef(new Set());
  const [at, setAt] = useState({ top: 0, fine: 0 });
  const [high, setHigh] = useState(480);
  const [active, setActive] = useState(0);
  const [, drawn] = useState(0);
  const full = total * ROW;
  const scaled = full > TALLEST;
  const height = Math.min(full, TALLEST);
  const fits = Math.max(1, Math.ceil(high / ROW));
  useEffect(() => { blocks.current = new Map([[0, first]]); asked.current = new Set(); setAt({ top: 0, fine: 0 }); setActive(0); if (ref.current) ref.current.scrollTop = 0; }, [id]);
  useLayoutEffect(() => {
    const measure = () => setHigh(Math.max(120, ref.current.clientHeight - (ref.current.querySelector("thead")?.offsetHeight || 0)));
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  const last = Math.max(0, total - Math.floor(high / ROW));
  const range = Math.max(1, height - high);
  const moved = useRef(false);
  const scroll = () => {
    if (moved.current) { moved.current = false; return; }
    const y = ref.current.scrollTop;
    if (scaled) setAt({ top: Math.min(last, Math.round((y / range) * last)), fine: 0 });
    else setAt({ top: Math.min(last, Math.floor(y / ROW)), fine: y % ROW });
  };
  const goto = (top) => {
    const aim = Math.max(0, Math.min(last, Math.round(top)));
    setAt({ top: aim, fine: 0 });
    moved.current = true;
    const y = scaled ? (aim / Math.max(1, last)) * range : aim * ROW;
    if (Math.abs(ref.current.scrollTop - y) < 1) moved.current = false;
    ref.current.scrollTop = y;
  };
  useEffect(() => {
    if (!scaled) return undefined;
    const wheel = (event) => { if (event.deltaY && !event.ctrlKey) { event.preventDefault(); goto(at.top + Math.sign(event.deltaY) * Math.max(1, Math.round(Math.abs(event.deltaY) / ROW))); } };
    ref.current.addEventListener("wheel", wheel, { passive: false });
    return () => ref.current?.removeEventListener("wheel", wheel);
  });
  useEffect(() => {
    const wait = setTimeout(async () => {
      for (const offset of new Set([Math.floor(at.top / 100) * 100, Math.floor(Math.min(total - 1, at.top + fits) / 100) * 100])) {
        if (offset < 0 || blocks.current.has(offset) || asked.current.has(offset)) continue;
        asked.current.add(offset);
        try {
          const rows = await load(offset);
          blocks.current.set(offset, rows);
          while (blocks.current.size > 80) { const [oldest] = blocks.current.keys(); blocks.current.delete(oldest); }
          drawn((n) => n + 1);
        } catch (error) { say(error.message, "bad"); }
        asked.current.delete(offset);
      }
    }, 70);
    return () => clearTimeout(wait);
  }, [at.top, fits, id, total]);
  const key = (event) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: fits - 1, PageUp: 1 - fits, End: total, Home: -total }[event.key];
    if (step !== undefined && !event.ctrlKey && !event.metaKey) {
      const next = Math.max(0, Math.min(total - 1, active + step));
      setActive(next);
      if (next < at.top) goto(next); else if (next >= at.top + Math.floor(high / ROW)) goto(next - Math.floor(high / ROW) + 1);
      event.preventDefault();
      event.stopPropagation();
    } else if (event.key === "Enter" && onRow) {
      const row = blocks.current.get(Math.floor(active / 100) * 100)?.[active % 100];
      if (row) onRow(row, active);
    }
  };
  const visible = [];
  for (let n = at.top; n < Math.min(total, at.top + fits + 1); n += 1) visible.push(n);
  return html`<div class=${total <= 12 ? "window short" : "window"} ref=${ref} onScroll=${scroll} onKeyDown=${key} tabindex="0" role="region" aria-label=${label}>
    <div class="tall" style=${total <= 12 ? {} : { height: `${height + 60}px` }}>
      <table class="grid" aria-rowcount=${total + 1}><colgroup><col style=${{ width: `${Math.max(52, String(total).length * 9 + 22)}px` }} />${columns.map((c) => html`<col style=${{ width: `${c.width}px` }} />`)}</colgroup>
        <thead><tr><th class="n" scope="col"><span class="hidden">row</span></th>${columns.map((c) => html`<th scope="col" class=${isNumber(c.type) ? "num" : ""}>${head ? head(c) : html`<span class="name">${keys.includes(c.name) ? html`<${Icon} name="key" size=${12} />` : null}${c.name}</span><span class="type" title=${c.type}>${typeName(c.type)}</span>`}</th>`)}</tr></thead>
        <tbody style=${{ transform: `translateY(${-at.fine}px)` }}>${visible.map((n) => {
          const row = blocks.current.get(Math.floor(n / 100) * 100)?.[n % 100];
          return html`<tr key=${n} aria-rowindex=${n + 2} class=${n === active ? "active" : ""} onClick=${row && onRow ? () => { setActive(n); onRow(row, n); } : undefined}><td class="n">${count(n + 1)}</td>${columns.map((c) => html`<td class=${isNumber(c.type) ? "num" : ""}>${row ? html`<${Cell} value=${row[c.name]} type=${c.type} />` : html`<span class="wait"></span>`}</td>`)}</tr>`;
        })}</tbody></table>
    </div></div>`;
}

/** Rows before and after, cell by cell. */
export function DiffRows({ table, columns, keyNames, rows, limit }) {
  const names = columns || [...new Set([...rows.added, ...rows.before, ...rows.after, ...rows.removed].flatMap(Object.keys))];
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const line = (kind, sign, row, other) => html`<tr class=${kind}><th scope="row" class="sign"><span aria-hidden="true">${sign}</span><span class="hidden">${kind}</span></th>${names.map((n) => html`<td class=${other && !same(row[n], other[n]) ? "differs" : ""}>${other && !same(row[n], other[n]) ? html`<del>${shown(other[n])}</del> <ins>${shown(row[n])}</ins>` : html`<${Cell} value=${row[n]} />`}</td>`)}</tr>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`Changed rows of ${table}`}><table class="diff"><thead><tr><th><span class="hidden">change</span></th>${names.map((n) => html`<th scope="col">${keyNames?.includes(n) ? html`<${Icon} name="key" size=${12} /> ` : null}${n}</th>`)}</tr></thead>
    <tbody>${rows.added.map((r) => line("added", "+", r))}${rows.after.map((r, i) => line("changed", "~", r, rows.before[i] || {}))}${rows.removed.map((r) => line("removed", "−", r))}</tbody></table></div>
    ${limit ? html`<p class="muted small">At most ${limit} rows of each kind are shown.</p>` : null}`;
}

/** Move through a list by j and k, open with Enter. */
export function useList(length, open) {
  const [at, draw] = useState(-1);
  const place = useRef(-1);
  useEffect(() => {
    const key = (event) => {
      if (event.target.closest?.("input, textarea, select, [contenteditable], .cm-editor, dialog, .window") || event.metaKey || event.ctrlKey || event.altKey) return;
      if (event.key === "j" || event.key === "k") {
        place.current = Math.max(0, Math.min(length - 1, place.current + (event.key === "j" ? 1 : -1)));
        draw(place.current);
        event.preventDefault();
      } else if (event.key === "Enter" && place.current >= 0 && event.target === document.body) open(place.current);
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  });
  useEffect(() => { document.querySelector('[data-at="true"]')?.scrollIntoView({ block: "nearest" }); }, [at]);
  return at;
}

export { go, again, opened };
