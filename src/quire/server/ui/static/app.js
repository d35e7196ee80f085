// The frame around every page: where one is, where one can go, search of everything, keys, theme.
import { html, render, useState, useEffect, useRef, signal, current, loading, said, say, go, to, parse, isPage, twin, UI, title, kept, told, ago, again } from "./lib.js";
import { Icon, Menu, Dialog, Branch, Skeleton } from "./parts.js";

const PAGES = {
  home: () => import("./pages/home.js"), tables: () => import("./pages/tables.js"), table: () => import("./pages/table.js"),
  commits: () => import("./pages/commits.js"), commit: () => import("./pages/commit.js"), compare: () => import("./pages/compare.js"),
  conflicts: () => import("./pages/conflicts.js"), sql: () => import("./pages/sql.js"), graph: () => import("./pages/graph.js"),
  schema: () => import("./pages/schema.js"), upkeep: () => import("./pages/upkeep.js"), live: () => import("./pages/live.js"),
  requests: () => import("./pages/requests.js"), request: () => import("./pages/request.js"), problem: () => import("./pages/problem.js"),
};
const NAV = [
  ["tables", "Tables", "table", "t"], ["commits", "Commits", "commits", "c"], ["sql", "SQL", "sql", "s"], ["graph", "Graph", "graph", "g"],
  ["schema", "Schema", "schema", "e"], ["requests", "Requests", "requests", "r"], ["live", "Live", "live", "l"], ["upkeep", "Upkeep", "upkeep", "u"],
];
const WITHIN = { table: "tables", commit: "commits", compare: "requests", conflicts: "requests", request: "requests" };

const views = signal({});
const palette = signal(false);
const helping = signal(false);

async function ensure(page) {
  const name = PAGES[page] ? page : "problem";
  if (!views.value[name]) views.value = { ...views.value, [name]: (await PAGES[name]()).default };
}

// -- the frame -----------------------------------------------------------------------------------------------------

function Theme() {
  const [theme, set] = useState(document.documentElement.dataset.theme || "auto");
  const next = { auto: "light", light: "dark", dark: "auto" }[theme];
  const turn = () => {
    if (next === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = next;
    try { if (next === "auto") localStorage.removeItem("quire-theme"); else localStorage.setItem("quire-theme", next); } catch { /* storage is off */ }
    set(next);
    document.dispatchEvent(new Event("themechange"));
  };
  return html`<button type="button" class="button quiet square" onClick=${turn} title=${`Theme: ${theme}`} aria-label=${`Theme: ${theme}. Change to ${next}.`}><${Icon} name=${{ auto: "auto", light: "sun", dark: "moon" }[theme]} size=${18} /></button>`;
}

function Names() {
  const [found, set] = useState(null);
  const [word, type] = useState("");
  const { branch, at } = current.value.context;
  const { page, params = {} } = current.value;
  useEffect(() => { twin("names", {}).then((s) => set(s.data), () => set({ branches: [], tags: [] })); }, []);
  const stay = ["tables", "table", "commits", "sql", "graph", "schema", "upkeep", "live"].includes(page) ? page : "tables";
  const { at: _, before: __, offset: ___, ...rest } = params;
  const fits = (name) => name.toLowerCase().includes(word.toLowerCase());
  return html`<input class="field stay" placeholder="Find a branch or tag" aria-label="Find a branch or tag" value=${word} onInput=${(e) => type(e.target.value)} />
    <div class="list">${found ? html`<p class="group">Branches</p>${found.branches.filter((b) => fits(b.name)).map((b) => html`<a href=${to(stay, { ...rest, branch: b.name, at: null })} aria-current=${b.name === branch && !at ? "true" : undefined}><${Icon} name="branch" /><span>${b.name}</span><kbd>${b.head}</kbd></a>`)}
    ${found.tags.length ? html`<p class="group">Tags</p>${found.tags.filter((t) => fits(t.name)).map((t) => html`<a href=${to(stay === "commits" || stay === "live" || stay === "upkeep" ? "tables" : stay, { ...rest, at: t.commit })}><${Icon} name="tag" /><span>${t.name}</span><kbd>${t.commit}</kbd></a>`)}` : null}` : html`<${Skeleton} rows=${3} />`}</div>`;
}

function Bar() {
  const { lake, lakes = [], branch, at, actor, signed_in: signedIn, write } = current.value.context;
  const out = async () => { await fetch(new URL("session", UI), { method: "DELETE" }); location.reload(); };
  return html`<header class="bar"><a class="mark" href=${UI.href} aria-label="Quire: all lakes"><svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true"><path d="M4 6.500 16 10v18L4 24.500z" /><path d="M28 6.500 16 10v18l12-3.500z" opacity=".65" /><path d="M8 3l8 2.600L24 3v3.600L16 9 8 6.600z" opacity=".4" /></svg><span>Quire</span></a>
    ${lake ? html`<span class="slash" aria-hidden="true">/</span>${lakes.length > 1 ? html`<${Menu} label=${lake} kind="quiet strong" title="Change the lake"><div class="list">${lakes.map((name) => html`<a href=${to("tables", {}, name)} aria-current=${name === lake ? "true" : undefined}>${name}</a>`)}</div><//>` : html`<a class="lake" href=${to("tables", { at: null, branch: "main" })}>${lake}</a>`}
      <span class="slash" aria-hidden="true">/</span><${Menu} label=${at || branch || "main"} icon=${at ? "clock" : "branch"} kind=${at ? "past" : "quiet"} title="Change the branch, tag or commit">${() => html`<${Names} />`}<//>
      ${!write ? html`<span class="chip" title="Nothing can be changed here"><${Icon} name="lock" size=${12} />read-only</span>` : null}` : null}
    <span class="fill"></span>
    ${lake ? html`<button type="button" class="button find" aria-label="Search everything" onClick=${() => { palette.value = true; }}><${Icon} name="search" /><span>Search everything</span><kbd>${navigator.platform?.startsWith("Mac") ? "⌘" : "Ctrl"} K</kbd></button>` : null}
    <${Theme} />
    ${signedIn ? html`<${Menu} label=${actor} kind="quiet" title="You"><button type="button" onClick=${out}>Sign out</button><//>` : null}
  </header>`;
}

function Nav() {
  const { lake } = current.value.context;
  if (!lake) return null;
  const here = WITHIN[current.value.page] || current.value.page;
  return html`<nav class="nav" aria-label="Pages">${NAV.map(([page, name, icon, key]) => html`<a href=${to(page, page === "commits" || page === "live" || page === "upkeep" || page === "requests" ? { at: null } : {})} aria-current=${page === here ? "page" : undefined} title=${`${name} (g ${key})`}><${Icon} name=${icon} size=${18} /><span>${name}</span></a>`)}
    <span class="fill"></span><button type="button" class="button quiet" onClick=${() => { helping.value = true; }} title="Keys (?)"><${Icon} name="keyboard" size=${18} /><span>Keys</span></button></nav>`;
}

function Past() {
  const { at, branch } = current.value.context;
  if (!at) return null;
  const { page, params = {} } = current.value;
  return html`<div class="pastbar" role="note"><${Icon} name="clock" /><span>You look at <b>${at}</b>, not at the newest commit. <a href=${to(page === "problem" ? "tables" : page, { ...params, at: null, branch })}>Back to the newest commit of ${branch || "main"}</a></span></div>`;
}

function Said() {
  const [shown, show] = useState(null);
  useEffect(() => said.subscribe((value) => {
    if (!value) return;
    show(value);
    clearTimeout(Said.timer);
    Said.timer = setTimeout(() => show(null), value.kind === "bad" ? 8000 : 3500);
  }), []);
  return html`<div class="said" role="status" aria-live="polite">${shown ? html`<div class=${shown.kind}><${Icon} name=${shown.kind === "bad" ? "warn" : "check"} />${shown.text}</div>` : null}</div>`;
}

// -- search of everything --------------------------------------------------------------------------------------------

const ICONS = { table: "table", branch: "branch", tag: "tag", commit: "commits", request: "requests", page: "right" };
const address = (one) => ({
  table: () => to("table", { name: one.name }), branch: () => to("tables", { branch: one.name, at: null }), tag: () => to("tables", { at: one.commit }),
  commit: () => to("commit", { id: one.commit, branch: one.branch }), request: () => to("request", { number: one.number, branch: null }), page: () => to(one.page),
}[one.kind]());

function Palette() {
  const [word, type] = useState("");
  const [found, set] = useState([]);
  const [busy, work] = useState(true);
  const [at, move] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    work(true);
    const wait = setTimeout(async () => {
      try { set((await twin("search", { q: word, at: null }, { signal: stop.signal })).data.found); work(false); move(0); } catch (error) { if (error.name !== "AbortError") { set([]); work(false); } }
    }, word ? 120 : 0);
    return () => { clearTimeout(wait); stop.abort(); };
  }, [word]);
  const pages = NAV.filter(([, name]) => name.toLowerCase().includes(word.toLowerCase())).map(([page, name]) => ({ kind: "page", page, name }));
  const all = word ? [...found, ...pages] : [...pages, ...found];
  const open = (one) => { palette.value = false; go(address(one)); };
  const key = (event) => {
    if (event.key === "ArrowDown" || (event.ctrlKey && event.key === "n")) { move((n) => Math.min(all.length - 1, n + 1)); event.preventDefault(); }
    if (event.key === "ArrowUp" || (event.ctrlKey && event.key === "p")) { move((n) => Math.max(0, n - 1)); event.preventDefault(); }
    if (event.key === "Enter" && all[at]) { open(all[at]); event.preventDefault(); }
  };
  const ref = useRef();
  useEffect(() => { ref.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }); }, [at]);
  const dialog = useRef();
  useEffect(() => { dialog.current.showModal(); }, []);
  return html`<dialog class="palette" ref=${dialog} aria-label="Search everything" onCancel=${() => { palette.value = false; }} onClick=${(e) => { if (e.target === dialog.current) palette.value = false; }}>
    <div class="ask"><${Icon} name="search" size=${18} /><input role="combobox" aria-expanded="true" aria-controls="found" aria-activedescendant=${all[at] ? `found-${at}` : undefined} autofocus placeholder="Tables, commits, branches, tags, requests" aria-label="Search everything" value=${word} onInput=${(e) => type(e.target.value)} onKeyDown=${key} /><kbd>esc</kbd></div>
    <div class="found" id="found" role="listbox" aria-label="Found" ref=${ref}>${all.map((one, i) => html`<div role="option" id=${`found-${i}`} aria-selected=${i === at} onClick=${() => open(one)} onMouseMove=${() => { if (at !== i) move(i); }}><${Icon} name=${ICONS[one.kind]} /><span>${one.name}</span><small>${one.kind}${one.author ? ` by ${one.author}` : ""}</small></div>`)}
    ${!all.length ? html`<p class="muted">${busy ? "Looking…" : "Nothing has this in its name."}</p>` : null}</div></dialog>`;
}

const KEYS = [["Ctrl K  or  /", "search everything"], ...NAV.map(([, name, , key]) => [`g ${key}`, name]), ["j  k", "next, previous"], ["enter", "open"], ["?", "this list"], ["t", "theme"], ["o  t  e  n", "in conflicts: ours, theirs, edit, next"], ["Ctrl enter", "in a console: run"]];
const Help = () => html`<${Dialog} title="Keys" close=${() => { helping.value = false; }}><dl class="keys">${KEYS.map(([key, what]) => html`<div><dt>${key.split("  ").map((k) => html`<kbd>${k}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl><//>`;

let leader = 0;
document.addEventListener("keydown", (event) => {
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k" && current.value.context.lake) { palette.value = !palette.value; event.preventDefault(); return; }
  if (event.target.closest?.("input, textarea, select, [contenteditable], .cm-editor, dialog") || event.metaKey || event.ctrlKey || event.altKey) return;
  if (leader && Date.now() - leader < 1200) {
    leader = 0;
    const found = NAV.find(([, , , key]) => key === event.key);
    if (found && current.value.context.lake) { go(to(found[0])); event.preventDefault(); return; }
  }
  if (event.key === "g" && current.value.context.lake) leader = Date.now();
  else if (event.key === "/" && current.value.context.lake) { palette.value = true; event.preventDefault(); }
  else if (event.key === "?") helping.value = true;
  else if (event.key === "t" && current.value.page !== "conflicts") document.querySelector(".bar .square")?.click();
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href);
  if (!isPage(url) || (url.hash && url.pathname === location.pathname)) return;
  event.preventDefault();
  go(url.href);
});
addEventListener("popstate", () => go(location.href, { keep: true }));

function App() {
  const state = current.value;
  const name = PAGES[state.page] ? state.page : "problem";
  const View = views.value[name];
  useEffect(() => { ensure(state.page); }, [state.page]);
  return html`<a class="skip" href="#main">Skip to the page</a><${Bar} /><div class=${`progress ${loading.value ? "on" : ""}`} aria-hidden="true"></div>
    <div class=${state.context?.lake ? "frame" : "frame bare"}><${Nav} /><main id="main" tabindex="-1" class=${`page-${name}`} aria-busy=${loading.value}><${Past} />${View ? html`<${View} key=${state.page + JSON.stringify([state.context?.lake, state.params?.name, state.params?.id, state.params?.number])} state=${state} data=${state.data} context=${state.context || {}} params=${state.params || {}} />` : html`<${Skeleton} />`}</main></div>
    ${palette.value ? html`<${Palette} />` : null}${helping.value ? html`<${Help} />` : null}<${Said} />`;
}

const first = JSON.parse(document.getElementById("data").textContent);
current.value = { context: {}, data: {}, ...first, params: parse(location.href).params };
if (current.value.page === "problem") current.value.context = { branch: current.value.params.branch || "main", ...first.context };
document.title = `${title(current.value)} · Quire`;
await ensure(current.value.page);
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
document.documentElement.dataset.ready = "true";
