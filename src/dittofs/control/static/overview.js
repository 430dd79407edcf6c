// The server at a glance, live.

import { get } from "./api.js";
import { h, replace, table } from "./dom.js";
import { chart } from "./drawing.js";
import { count, since, size } from "./format.js";

const KEPT = 120;
const history = [];

/** Rates between two statuses are kept also while another view is shown. */
export function remember(status) {
  const last = history.at(-1)?.status;
  const seconds = last ? Math.max(0.001, status.now - last.now) : 1;
  const rate = (key) => (last ? Math.max(0, (Number(status[key]) - Number(last[key])) / seconds) : 0);
  history.push({ status, requests: rate("requests"), read: rate("bytes_read"), written: rate("bytes_written") });
  if (history.length > KEPT) history.shift();
}

const tile = (name, value) => h("div", { class: "tile" }, h("b", {}, value), h("span", {}, name));

const plot = (title, ...series) => h("section", { class: "card chart" }, h("h2", {}, title), chart(series.map(([, pick]) => history.map(pick))),
  h("div", { class: "soft" }, series.map(([name], at) => h("span", {}, h("i", { class: `key${at ? " second" : ""}` }), `${name}  `))));

export async function overview(main) {
  const health = await get("/health");
  const tiles = h("div", { class: "tiles" });
  const charts = h("div", { class: "charts" });
  const about = h("p", { class: "soft" });
  const stores = table(["Store", "Kind", "Keeps", "State", "Available"], health.stores.map((one) => [
    one.name, one.kind, one.keeps, h("span", { class: `tag ${one.is_ready ? "good" : "bad"}` }, one.detail),
    one.available_bytes === null ? "–" : `${size(one.available_bytes)} of ${size(one.total_bytes)}`]), "No store is open.");
  replace(main, h("h1", {}, "Overview"), health.problems.map((text) => h("p", { class: "problem" }, text)), tiles, charts,
    h("section", { class: "card" }, h("h2", {}, "Stores"), stores), about);
  const update = () => {
    const now = history.at(-1);
    if (!now) return;
    const { status } = now;
    replace(tiles, tile("locks held", count(status.locks)), tile("requests waiting", count(status.waiting)),
      tile("deadlocks lately", count(status.deadlocks)), tile("connections", count(status.connections)),
      tile("requests per second", count(now.requests.toFixed(0))), tile("read per second", size(now.read)),
      tile("written per second", size(now.written)), tile("event loop lag", `${(status.loop_lag_seconds * 1000).toFixed(1)} ms`));
    replace(charts, plot("Requests per second", ["requests", (one) => one.requests]),
      plot("Bytes per second", ["read", (one) => one.read], ["written", (one) => one.written]),
      plot("Locks", ["held", (one) => one.status.locks], ["waiting", (one) => one.status.waiting]));
    about.textContent = `DittoFS ${status.version}, up ${since(status.started_at)}, epoch ${status.epoch}, after a ${status.started_after}.`;
  };
  update();
  return { status: update };
}
