// The lock explorer: who holds what, who waits behind whom and why, and taking a lock away.

import { get } from "./api.js";
import { askReason } from "./asking.js";
import { h, replace, table } from "./dom.js";
import { graph, ranges } from "./drawing.js";
import { bytes, count, file, owner, since, when } from "./format.js";

const PAGE = 200;
const WARNING = "The client is not told: it still believes that it holds the lock, and may go on writing. Make sure that it does not.";

const kind = (type) => h("span", { class: `tag ${type}` }, type);
const toFile = (one) => h("a", { href: `#/file?share=${encodeURIComponent(one.share)}&file=${one.file}` }, h("code", {}, file(one)));
const who = (one) => h("span", { title: one.id }, owner(one), " ", h("code", { class: "soft" }, one.address));

function releaser({ right, refresh }) {
  return (lock) => h("button", { class: "danger", disabled: right !== "change", onclick: () => askReason({
    title: `Release lock ${lock.id}?`, text: `${owner(lock.owner)} loses ${bytes(lock)} of ${file(lock)}. Whoever waits for it gets it.`,
    warning: WARNING, action: "Release it", path: `/locks/${lock.id}/release`, done: refresh }) }, "Release");
}

const lockRows = (locks, release) => locks.map((one) => [
  String(one.id), kind(one.type), one.state, bytes(one), since(one.acquired_at), who(one.owner), toFile(one), release(one)]);
const LOCK_TITLES = ["#Lock", "Type", "State", "Bytes", "Held for", "Owner", "File", ""];

const waiterCards = (waiters) => waiters.map((one) => h("div", {},
  h("p", { class: "why" }, one.why), h("p", { class: "soft" }, kind(one.type), ` ${bytes(one)} of `, toFile(one), ` · ticket ${one.ticket} · ${one.state.replace("_", " ")}`)));

export async function locks(main, context) {
  const { query, go } = context;
  const release = releaser(context);
  const ask = (cursor) => get("/locks", { share: query.share, path: query.path, client: query.client, state: query.state || "any", limit: PAGE, cursor });
  const [{ shares }, page, waiting, { owners, edges }, { deadlocks }] = await Promise.all([
    get("/shares"), ask(""), get("/waiters", { share: query.share, client: query.client, limit: 50 }), get("/graph", { limit: 60 }), get("/deadlocks")]);
  const input = (name, title, options) => h("label", {}, title, options
    ? h("select", { name }, options.map(([value, text]) => h("option", { value, selected: (query[name] ?? "") === value }, text)))
    : h("input", { name, value: query[name] ?? "", autocomplete: "off" }));
  const filters = h("form", { class: "filters" },
    input("share", "Share", [["", "all"], ...shares.map((one) => [one.name, one.name])]),
    input("path", "Path of a file"), input("client", "Client id"),
    input("state", "State", [["", "any"], ["held", "held"], ["offered", "offered"], ["pending", "pending: to be reclaimed"]]),
    h("button", { class: "main", type: "submit" }, "Show"));
  filters.addEventListener("submit", (event) => {
    event.preventDefault();
    go("locks", Object.fromEntries(new FormData(filters)));
  });
  const rows = lockRows(page.locks, release);
  const listed = h("div", {});
  const more = h("button", { hidden: page.next === null }, "Show more");
  let next = page.next;
  const draw = () => replace(listed, table(LOCK_TITLES, rows, "No such lock is held."));
  more.addEventListener("click", async () => {
    const following = await ask(next);
    rows.push(...lockRows(following.locks, release));
    next = following.next;
    more.hidden = next === null;
    draw();
  });
  draw();
  replace(main, h("h1", {}, "Locks"),
    waiting.waiters.length ? h("section", { class: "card", id: "waiters" }, h("h2", {}, `Waiting (${count(waiting.total)})`), waiterCards(waiting.waiters)) : null,
    edges.length ? h("section", { class: "card" }, h("h2", {}, "Who waits for whom"), h("div", { class: "scroll" }, graph(owners, edges))) : null,
    h("section", { class: "card" }, h("h2", {}, `Held (${count(page.total)} in all)`), filters, listed, more),
    deadlocks.length ? h("section", { class: "card", id: "deadlocks" }, h("h2", {}, "Deadlocks that were broken"),
      deadlocks.slice(0, 10).map((one) => h("p", { class: "problem" }, `${when(one.at)}: ${one.why}`))) : null);
}

export async function fileView(main, context) {
  const { query } = context;
  const about = await get("/file", { share: query.share, file: query.file, path: query.path, limit: PAGE });
  const release = releaser(context);
  replace(main, h("p", {}, h("a", { href: "#/locks" }, "← all locks")), h("h1", {}, h("code", {}, file(about))),
    about.waiters.length ? h("section", { class: "card", id: "waiters" }, h("h2", {}, "Why is this blocked?"), waiterCards(about.waiters)) : null,
    h("section", { class: "card" }, h("h2", {}, "Ranges"),
      about.locks.length + about.waiters.length ? h("div", { class: "scroll" }, ranges(about.locks, about.waiters)) : h("p", { class: "soft" }, "Nobody holds or awaits a lock on this file."),
      h("p", { class: "soft" }, "Solid: held, a line for each owner. Dashed: waiting, in the order of the queue. Distances are not to scale.")),
    h("section", { class: "card" }, h("h2", {}, `Held (${count(about.total)})`), table(LOCK_TITLES, lockRows(about.locks, release), "No lock is held."),
      about.total > about.locks.length ? h("p", {}, `These are the first ${count(about.locks.length)}. `,
        about.path === null ? null : h("a", { href: `#/locks?path=${encodeURIComponent(about.path)}` }, "All of them")) : null));
}
