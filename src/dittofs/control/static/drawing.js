// Pictures: live lines, the ranges of a file, and who waits for whom.

import { s } from "./dom.js";
import { bytes, owner } from "./format.js";

export function chart(series) {
  const high = Math.max(1e-9, ...series.flat());
  const points = (values) =>
    values.map((value, at) => `${(at / Math.max(1, values.length - 1)) * 300},${100 - (value / high) * 92}`).join(" ");
  return s("svg", { viewBox: "0 0 300 104", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("line", { x1: 0, y1: 100, x2: 300, y2: 100 }),
    series.map((values, at) => s("polyline", { points: points(values), class: at ? "second" : "first" })));
}

const ownerKey = (one) => `${one.client}\n${one.id}`;
const ROW = 26;
const LEFT = 170;
const WIDTH = 900;
const DRAWN_MAX = 100; // of each kind

/** Each boundary of a range gets its place: ranges may be a byte or 2^64 bytes long, and both must be seen. */
function scale(parts) {
  const ends = parts.flatMap((part) => [BigInt(part.start), part.end === null ? null : BigInt(part.end)]);
  const places = [...new Set(ends.filter((end) => end !== null).concat(0n))].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const step = (WIDTH - LEFT - 60) / Math.max(1, places.length);
  const at = new Map(places.map((place, number) => [place, LEFT + number * step]));
  return { places, x: (value) => (value === null ? WIDTH - 14 : at.get(BigInt(value))) };
}

/** One line for what each owner holds, then one for each request that waits, in the order of the queue. */
function lines(locks, waiters) {
  const drawable = (parts) => parts.filter((part) => part.type !== "reservation").slice(0, DRAWN_MAX);
  const held = new Map();
  for (const lock of drawable(locks)) {
    const key = ownerKey(lock.owner);
    if (!held.has(key)) held.set(key, { owner: lock.owner, parts: [], waits: false });
    held.get(key).parts.push(lock);
  }
  return [...held.values(), ...drawable(waiters).map((part) => ({ owner: part.owner, parts: [part], waits: true }))];
}

export function ranges(locks, waiters) {
  const drawn = lines(locks, waiters);
  const { places, x } = scale(drawn.flatMap(({ parts }) => parts));
  const height = drawn.length * ROW + 34;
  const shown = places.filter((_, at) => places.length < 14 || at % Math.ceil(places.length / 12) === 0);
  const bar = (part, waits, y) => s("rect", {
    class: `bar ${part.type}${waits ? " wait" : ""}`, x: x(part.start), y: y + 2, width: Math.max(5, x(part.end) - x(part.start) - 2), height: ROW - 9, rx: 3 },
    s("title", {}, `${owner(part.owner)}: ${part.type}, ${bytes(part)}`));
  return s("svg", { class: "ranges", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "Ranges of the locks of this file" },
    shown.map((place) => [
      s("line", { class: "axis", x1: x(place), x2: x(place), y1: 18, y2: height - 8 }),
      s("text", { class: "soft", x: x(place), y: 12 }, String(place)),
    ]).flat(),
    drawn.map(({ owner: whose, parts, waits }, at) => {
      const y = 24 + at * ROW;
      return s("g", {},
        s("text", { x: 0, y: y + 14 }, `${owner(whose)}${waits ? " (waits)" : ""}`.slice(0, 28)),
        parts.map((part) => bar(part, waits, y)),
        parts.some((part) => part.end === null) ? s("text", { class: "soft", x: WIDTH - 11, y: y + 14 }, "→") : null);
    }));
}

/** Owners in columns: whoever waits stands to the left of whom he waits for. */
export function graph(owners, edges) {
  const key = ownerKey;
  const depth = new Map(owners.map((one) => [key(one), 0]));
  for (let round = 0; round < Math.min(owners.length, 12); round++) {
    for (const edge of edges) {
      const [from, to] = [key(edge.waiter), key(edge.holder)];
      if (depth.get(to) <= depth.get(from)) depth.set(to, Math.min(depth.get(from) + 1, 6));
    }
  }
  const columns = [];
  for (const one of owners) (columns[depth.get(key(one))] ??= []).push(one);
  const place = new Map();
  const wide = 190;
  columns.forEach((column, at) => (column ?? []).forEach((one, row) => place.set(key(one), { x: 10 + at * (wide + 70), y: 24 + row * 58 })));
  const width = Math.max(520, columns.length * (wide + 70));
  const height = Math.max(60, ...columns.map((column) => (column ?? []).length * 58 + 26));
  return s("svg", { class: "graph", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Who waits for whom" },
    s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0 8 4 0 8z" }))),
    edges.map((edge) => {
      const [from, to] = [place.get(key(edge.waiter)), place.get(key(edge.holder))];
      if (!from || !to) return null;
      const forwards = to.x > from.x;
      const [x1, x2] = [from.x + wide, forwards ? to.x : to.x + wide];
      const bend = forwards ? 40 : 70;
      // An edge that passes a column goes above it, where it can be seen.
      const lift = to.x - from.x > wide + 80 ? 34 : 0;
      return s("path", { class: `edge${edge.lock === null ? " soft" : ""}`, "marker-end": "url(#arrow)",
        d: `M${x1} ${from.y + 19 - lift / 4} C${x1 + bend} ${from.y + 19 - lift} ${x2 - (forwards ? bend : -bend)} ${to.y + 19 - lift} ${x2} ${to.y + 19 - lift / 4}` });
    }),
    owners.map((one) => {
      const { x, y } = place.get(key(one));
      return s("g", {}, s("title", {}, one.id),
        s("rect", { class: "node", x, y, width: wide, height: 38, rx: 8 }),
        s("text", { x: x + 10, y: y + 16 }, owner(one).slice(0, 26)),
        s("text", { class: "soft", x: x + 10, y: y + 31 }, one.address));
    }));
}
