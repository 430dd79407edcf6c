// Session, views and the stream of events that keeps them fresh.

import { get, post } from "./api.js";
import { askReason } from "./asking.js";
import { h, replace } from "./dom.js";
import { span } from "./format.js";
import { fileView, locks } from "./locks.js";
import { overview, remember } from "./overview.js";
import { audit, clients, shares } from "./resources.js";

const VIEWS = { overview, locks, clients, shares, audit, file: fileView };
const NAMES = { overview: "Overview", locks: "Locks", clients: "Clients", shares: "Shares", audit: "Audit" };
const REFRESH_SECONDS = 2;

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const live = document.getElementById("live");
const logout = document.getElementById("logout");
const graceBar = document.getElementById("grace");

let right = "";
let events = null;
let shown = { view: null, updates: null, changes: -1, at: 0, busy: false };

function place() {
  const [name, text = ""] = location.hash.replace(/^#\//, "").split("?");
  return { name: VIEWS[name] ? name : "overview", query: Object.fromEntries(new URLSearchParams(text)) };
}

function go(name, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value);
  location.hash = `#/${name}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

async function show() {
  const { name, query } = place();
  shown.busy = true;
  for (const link of nav.children) link.toggleAttribute("aria-current", link.dataset.name === (name === "file" ? "locks" : name));
  document.title = `${NAMES[name] ?? "Locks"} · DittoFS`;
  const same = location.hash;
  try {
    const staging = h("div", {});
    const updates = await VIEWS[name](staging, { query, right, refresh: show, go });
    if (location.hash !== same) return;
    replace(main, ...staging.childNodes);
    shown = { ...shown, view: name, updates, at: Date.now() };
  } catch (error) {
    if (error.status === 401) return leave();
    replace(main, h("p", { class: "problem", role: "alert" }, error.message));
  } finally {
    shown.busy = false;
  }
}

async function showGrace() {
  const grace = await get("/grace");
  graceBar.hidden = !grace.is_active;
  replace(graceBar, grace.shares.map((one) => h("div", {},
    h("b", {}, `${one.share} is in grace for ${span(one.remaining_seconds)} at most.`),
    " New locks are refused until these clients have reclaimed theirs:",
    h("ul", {}, one.roster.slice(0, 20).map((client) => h("li", {}, `${client.name} ${client.address}: ${client.locks} locks`))),
    h("button", { disabled: right !== "change", onclick: () => askReason({
      title: `End grace of ${one.share}?`, text: "Locks that were not reclaimed are dropped.",
      warning: "Clients that come back later lose those locks without being told.", action: "End grace",
      path: "/grace/end", body: { share: one.share }, done: () => { showGrace(); show(); } }) }, "End grace now"))));
}

function told(event) {
  const status = JSON.parse(event.data);
  live.classList.remove("off");
  live.textContent = "live";
  remember(status);
  shown.updates?.status?.(status);
  if (status.grace_seconds > 0 || !graceBar.hidden) showGrace().catch(() => {});
  // Ask again only for what has changed, not while somebody types, and not more often than a person can read.
  const typing = main.contains(document.activeElement) && /^(INPUT|SELECT)$/.test(document.activeElement.tagName);
  const due = Date.now() - shown.at > REFRESH_SECONDS * 1000;
  const scrolled = document.querySelectorAll("main tbody tr").length > 400;
  if (shown.view !== "overview" && status.changes !== shown.changes && due && !shown.busy && !typing && !scrolled) {
    shown.changes = status.changes;
    show();
  }
}

function listen() {
  events?.close();
  events = new EventSource("/api/v1/events");
  events.addEventListener("status", told);
  events.onerror = () => {
    live.classList.add("off");
    live.textContent = "not connected";
    get("/session").then((session) => session.right === "none" && leave(), () => {});
  };
}

async function enter() {
  ({ right } = await get("/session"));
  if (right === "none") return leave();
  replace(nav, Object.entries(NAMES).map(([name, title]) => h("a", { href: `#/${name}`, "data-name": name }, title)));
  for (const part of [nav, live, logout]) part.hidden = false;
  live.textContent = right === "change" ? "live" : "live, may only read";
  listen();
  await show();
}

function leave() {
  events?.close();
  for (const part of [nav, live, logout, graceBar]) part.hidden = true;
  const token = h("input", { type: "password", name: "token", required: true, autocomplete: "off" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const form = h("form", {}, h("h1", {}, "DittoFS"),
    h("p", {}, "A token is needed once. It is in the file ", h("code", {}, "api-tokens"), " of the server's data directory; ", h("code", {}, "read"), " lets you look, ", h("code", {}, "change"), " lets you act."),
    h("label", {}, "Token ", token), problem, h("button", { class: "main", type: "submit" }, "Enter"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await post("/session", { token: token.value });
      await enter();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  });
  replace(main, h("section", { class: "card login" }, form));
  token.focus();
}

logout.addEventListener("click", async () => {
  await post("/session", undefined, "DELETE").catch(() => {});
  leave();
});
addEventListener("hashchange", show);
enter().catch(leave);
