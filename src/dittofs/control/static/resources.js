// Shares, clients, and what operators did.

import { get } from "./api.js";
import { askReason } from "./asking.js";
import { h, replace, table } from "./dom.js";
import { count, since, size, when } from "./format.js";

const WARNING = "The client is not told: it still believes that it holds its locks, and may go on writing. Make sure that it does not.";

export async function shares(main) {
  const { shares: found } = await get("/shares");
  const rows = found.map((one) => [
    h("code", {}, one.name), `${one.metadata} + ${one.content}`, one.read_only ? "read-only" : one.durability, one.squash,
    one.clients.join(", "), count(one.shared + one.exclusive + one.reservations), count(one.waiting),
    one.in_grace ? h("span", { class: "tag warn" }, "in grace") : "–", size(one.available_bytes)]);
  replace(main, h("h1", {}, "Shares"), h("section", { class: "card" },
    table(["Share", "Stores", "Mode", "Squash", "Clients", "#Locks", "#Waiting", "Grace", "#Available"], rows, "Nothing is shared.")));
}

export async function clients(main, { right, refresh }) {
  const { clients: found } = await get("/clients");
  const forget = (one) => h("button", { class: "danger", disabled: right !== "change", onclick: () => askReason({
    title: `Forget ${one.name}?`, text: `It loses its ${one.locks} locks, and its place in every queue.`, warning: WARNING,
    action: "Forget it", path: `/forget/${encodeURIComponent(one.adapter)}/${encodeURIComponent(one.id)}`, done: refresh }) }, "Forget");
  const rows = found.map((one) => [
    one.name, h("code", {}, one.address), one.adapter,
    h("a", { href: `#/locks?client=${encodeURIComponent(one.id)}` }, count(one.locks)), count(one.waiting), count(one.connections),
    since(one.last_seen), one.mounts.join(", ") || "–",
    one.trouble ? h("span", { class: "tag bad" }, one.trouble) : "–", one.adapter === "nfs" ? null : forget(one)]);
  replace(main, h("h1", {}, "Clients"), h("section", { class: "card" },
    table(["Name", "Address", "Adapter", "#Locks", "#Waiting", "#Connections", "Seen", "Mounts", "Trouble", ""], rows, "No client is known.")));
}

export async function audit(main) {
  const { entries } = await get("/audit", { limit: 200 });
  const rows = entries.map((one) => [when(one.at), one.action, one.target, one.reason, one.outcome, one.actor]);
  replace(main, h("h1", {}, "Audit"), h("section", { class: "card" },
    table(["When", "Action", "Target", "Reason", "Outcome", "Who"], rows, "No operator has done anything yet.")));
}
