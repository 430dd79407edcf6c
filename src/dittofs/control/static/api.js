// The server's REST interface.  Offsets and tickets have 64 bits: what a Number cannot hold exactly becomes a BigInt.

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const exact = (key, value, context) =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context ? BigInt(context.source) : value;

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(`/api/v1${path}`, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new ApiError(0, "The server does not answer.");
  }
  const text = await answer.text();
  const value = text ? JSON.parse(text, exact) : null;
  if (!answer.ok) throw new ApiError(answer.status, value?.error ?? answer.statusText);
  return value;
}

export const get = (path, query = {}) => {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return ask(given.length ? `${path}?${new URLSearchParams(given)}` : path);
};

export const post = (path, body, method = "POST") =>
  ask(path, { method, headers: { "content-type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) });
