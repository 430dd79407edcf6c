// Values as people read them.

export const count = (value) => Number(value).toLocaleString("en");

export function size(bytes) {
  let value = Number(bytes);
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (value < 1024 || unit === "TiB") return `${unit === "B" ? value.toFixed(0) : value.toFixed(1)} ${unit}`;
    value /= 1024;
  }
}

export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const two = (value) => String(value).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86400)} d ${two(Math.floor((whole % 86400) / 3600))} h`;
}

export const since = (moment) => (moment === null ? "–" : span(Date.now() / 1000 - moment));
export const when = (moment) => new Date(moment * 1000).toLocaleString();

export function bytes(part) {
  if (part.type === "reservation") return `access ${part.access}, deny ${part.deny}`;
  if (part.end === null) return part.start === 0 ? "the whole file" : `from ${part.start} on`;
  return `${part.start} – ${BigInt(part.end) - 1n}`;
}

export const owner = (part) => `${part.name} / ${part.process}`;
export const file = (part) => part.path ?? `file ${part.file} of ${part.share}`;
