// Elements without markup in strings: nothing that comes from the network is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (name, properties, ...children) => fill(document.createElement(name), properties, children);
export const s = (name, properties, ...children) => fill(document.createElementNS(SVG, name), properties, children);

export function table(titles, rows, empty) {
  if (!rows.length) return h("p", { class: "soft" }, empty);
  const names = titles.map((title) => title.replace(/^#/, ""));
  const kind = (at) => (titles[at].startsWith("#") ? "number" : undefined);
  return h("div", { class: "scroll" }, h("table", { class: "stack" },
    h("thead", {}, h("tr", {}, names.map((name, at) => h("th", { class: kind(at) }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, at) => h("td", { class: kind(at), "data-title": names[at] }, cell)))))));
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat().filter(Boolean));
}
