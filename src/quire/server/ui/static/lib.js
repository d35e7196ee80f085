// Where pages are, how they ask, and how values are written. No page knows an absolute address.
import { signal } from "./vendor/preact-11.2.0.js";

export * from "./vendor/preact-11.2.0.js";

/** `…/ui/`, wherever a proxy put it. */
export const UI = new URL("../../", import.meta.url);
/** `…/v1/`, the HTTP API. */
export const API = new URL("../v1/", UI);

/** What is on the screen: the state that the page is a function of, and whether another one is on its way. */
export const current = signal({ page: "boot", context: {}, data: {} });
export const loading = signal(false);
/** What was just done, for eyes and screen readers. */
export const said = signal(null);

export const say = (text, kind = "good") => {
  said.value = { text, kind, at: Date.now() };
};

// -- addresses ---------------------------------------------------------------------------------------------------

const AT = new Set(["tables", "table", "sql", "graph", "schema"]);
/** Parameters that an address may have several times. */
const MANY = ["filter"];

/** The address of a page. Branch and commit stay as they are unless they are given; null leaves one out. */
export function to(page, params = {}, lake = current.value.context.lake) {
  if (page === "home") return UI.href;
  const url = new URL(`${encodeURIComponent(lake)}/${page}`, UI);
  const { branch, at } = current.value.context;
  const all = { ...(lake === current.value.context.lake ? { branch, at: AT.has(page) ? at : null } : {}), ...params };
  if (all.branch === "main") delete all.branch;
  for (const [name, value] of Object.entries(all)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== null && one !== undefined && one !== "") url.searchParams.append(name, one);
  }
  return url.href;
}

/** Which page an address is of: its lake, its name and its parameters. */
export function parse(href) {
  const url = new URL(href);
  const parts = url.pathname.slice(UI.pathname.length).split("/").filter(Boolean).map(decodeURIComponent);
  const params = Object.fromEntries(url.searchParams);
  for (const name of MANY) if (url.searchParams.has(name)) params[name] = url.searchParams.getAll(name);
  return { lake: parts[0], page: parts.length ? parts[1] || "tables" : "home", params };
}

export const isPage = (url) => url.origin === UI.origin && url.pathname.startsWith(UI.pathname) && !url.pathname.includes("/static/") && !url.pathname.endsWith(".json");

// -- asking ------------------------------------------------------------------------------------------------------

export class Problem extends Error {
  constructor(said) {
    super(said.detail);
    this.said = said;
  }
}

async function answer(response) {
  const kind = response.headers.get("content-type") || "";
  if (response.ok) return response.status === 204 ? null : kind.includes("json") ? response.json() : response.text();
  let told = { title: "The server failed", detail: `It answered ${response.status}.`, next: null, kind: "unknown", status: response.status };
  if (kind.includes("json")) told = { ...told, ...(await response.json()) };
  throw new Problem(told);
}

async function ask(url, options) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "No connection", detail: "The server does not answer.", next: "Try again.", kind: "offline", status: 0, retryable: true });
  }
  return answer(response);
}

/** The twin of a page, or a part of one: everything it shows, as JSON. */
export function twin(page, params = {}, options = {}) {
  const url = page === "home" ? new URL("home.json", UI) : new URL(to(page, params).replace(/\/([^/?]+)(\?|$)/, "/$1.json$2"));
  return ask(url, options);
}

/** One verb of the HTTP API below the lake. */
export function api(method, path, value, { params = {}, headers = {}, signal: abort } = {}) {
  const url = new URL(`lakes/${encodeURIComponent(current.value.context.lake)}/${path}`, API);
  for (const [name, given] of Object.entries(params)) if (given !== null && given !== undefined) url.searchParams.set(name, given);
  const body = value === undefined ? undefined : JSON.stringify(value);
  return ask(url, { method, body, headers: { ...(body ? { "content-type": "application/json" } : {}), ...headers }, signal: abort });
}

/** A write that belongs to a page. */
export function post(path, value) {
  const url = new URL(`${encodeURIComponent(current.value.context.lake)}/${path}`, UI);
  return ask(url, { method: "POST", body: JSON.stringify(value), headers: { "content-type": "application/json" } });
}

let turn = 0;
/** Show another page: fetch its twin, and draw when it is there. What is on the screen stays until then; and it stays
 *  altogether where `refused` is told that something in the address does not fit. */
export async function go(href, { replace = false, keep = false, refused = null } = {}) {
  const url = new URL(href);
  const mine = ++turn;
  const { page, lake, params } = parse(url.href);
  loading.value = true;
  try {
    const address = page === "home" ? new URL("home.json", UI) : new URL(`${encodeURIComponent(lake)}/${page}.json${url.search}`, UI);
    const state = await ask(address);
    if (mine !== turn) return;
    if (!keep) history[replace ? "replaceState" : "pushState"](null, "", url.href);
    current.value = { ...state, params, nonce: current.value.nonce };
    document.title = `${title(current.value)} · Quire`;
    if (!replace) scrollTo(0, 0);
  } catch (error) {
    if (mine !== turn) return;
    if (refused && [400, 403].includes(error.said?.status)) { refused(error.said); return; }
    if (!keep) history[replace ? "replaceState" : "pushState"](null, "", url.href);
    current.value = { page: "problem", problem: told(error), context: { ...current.value.context }, params, nonce: current.value.nonce };
  } finally {
    if (mine === turn) loading.value = false;
  }
}

export const again = () => go(location.href, { replace: true });

export const told = (error) => error.said || { title: "Something went wrong", detail: String(error.message || error), next: "Try again.", kind: "unknown" };

export function title(state) {
  const names = { home: "Lakes", tables: "Tables", table: state.params?.name || "Table", commits: "Commits", commit: `Commit ${state.params?.id || ""}`, sql: "SQL", graph: "Graph", schema: "Schema", upkeep: "Upkeep", live: "Live", requests: "Requests", request: `Request ${state.params?.number || ""}`, compare: "Compare", conflicts: "Conflicts", problem: "Problem" };
  const lake = state.context?.lake;
  return [names[state.page] || state.page, lake].filter(Boolean).join(" · ");
}

// -- values ------------------------------------------------------------------------------------------------------

const plain = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const count = (n) => plain.format(n);
export const compact = (n) => (Math.abs(n) < 10_000 ? plain.format(n) : short.format(n));
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export function bytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let at = 0;
  while (n >= 1000 && at < units.length - 1) { n /= 1000; at += 1; }
  return `${at === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[at]}`;
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "long" });
export function ago(text) {
  const seconds = (new Date(text) - Date.now()) / 1000;
  for (const [unit, size] of [["year", 31_557_600], ["month", 2_629_800], ["week", 604_800], ["day", 86_400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(seconds) >= size) return relative.format(Math.round(seconds / size), unit);
  }
  return Math.abs(seconds) < 10 ? "just now" : relative.format(Math.round(seconds), "second");
}
export const moment = (text) => new Date(text).toISOString().replace("T", " ").slice(0, 19) + " UTC";

export const isNumber = (type) => /^(u?int|float|double|half|decimal)/.test(type || "");

/** A type of Arrow in the words that fit above a column. */
export const typeName = (type) => (type || "").replace(/large_(string|binary|list)/g, "$1").replace(/(item|element): /g, "").replace(/ not null/g, "")
  .replace(/fixed_size_list<([^<>]+)>\[(\d+)\]/g, "$1[$2]").replace(/timestamp\[\w+, tz=([^\]]+)\]/g, "timestamp $1").replace(/(timestamp|time|date|duration)(?:32|64)?\[\w+\]/g, "$1");

/** A value in one line. */
export function shown(value) {
  if (value === null || value === undefined) return "null";
  if (typeof value === "string") return value;
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(10)));
  if (Array.isArray(value) && value.length > 4 && value.every((v) => typeof v === "number")) {
    return `[${value.slice(0, 3).map((v) => Number(v.toPrecision(3))).join(", ")}, … ${value.length}]`;
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export const quoted = (text) => JSON.stringify(String(text));
export const shell = (text) => (/^[\w./:@=-]+$/.test(text) ? text : `'${String(text).replace(/'/g, "'\\''")}'`);

export async function copy(text, what = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(`${what}.`);
}

/** Something kept for this browser, such as a history of queries. */
export const kept = {
  get(name, otherwise) {
    try { return JSON.parse(localStorage.getItem(`quire-${name}`)) ?? otherwise; } catch { return otherwise; }
  },
  set(name, value) {
    try { localStorage.setItem(`quire-${name}`, JSON.stringify(value)); } catch { /* storage is off */ }
  },
};

// -- the same, in three languages --------------------------------------------------------------------------------

/** How a lake is opened in Python, on the command line and over HTTP. */
export function opened() {
  const { lake, branch, address } = current.value.context;
  const server = new URL(".", API).href.replace(/v1\/$/, "");
  const open = address ? `quire.open(${quoted(address)})` : `quire.connect(${quoted(server + encodeURIComponent(lake))})`;
  const on = branch && branch !== "main" ? `.branch(${quoted(branch)})` : "";
  return {
    python: `import quire\n\nlake = ${open}${on}`,
    lake: address ? shell(address) : "$LAKE",
    on: branch && branch !== "main" ? ` --branch ${shell(branch)}` : "",
    url: `${new URL("lakes/", API).href}${encodeURIComponent(lake)}`,
    query: (params) => {
      const all = new URLSearchParams(Object.entries({ branch: branch === "main" ? null : branch, ...params }).filter(([, v]) => v !== null && v !== undefined && v !== ""));
      return String(all) ? `?${all}` : "";
    },
  };
}
