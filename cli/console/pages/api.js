// Requests to the console's server: documents, and server-sent events with the visitor's token.

const TOKEN = "rhumbline.token";

export class Refused extends Error {
  constructor(status, document) {
    super(document.error ?? `the server responded with ${status}`);
    this.status = status;
    this.code = document.code ?? "";
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (value) => (value ? sessionStorage.setItem(TOKEN, value) : sessionStorage.removeItem(TOKEN)),
};

async function request(path, parameters, signal, given = {}) {
  const headers = { ...given.headers, ...(token.get() ? { Authorization: `Bearer ${token.get()}` } : {}) };
  const query = new URLSearchParams(parameters ?? {}).toString();
  const response = await fetch(query ? `${path}?${query}` : path, { ...given, headers, signal });
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response;
}

export const get = async (path, parameters, signal) => (await request(path, parameters, signal)).json();

/** Send a document; whether it was taken is known from the response only. */
export const post = async (path, document) => (await request(path, {}, undefined,
  { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(document) })).json();

const PAUSE_MS_MIN = 500;
const PAUSE_MS_MAX = 10_000;
const SILENCE_MS_MAX = 30_000;

/**
 * Follow server-sent events until the signal. `on.event(kind, data)` gets each of them; `on.state`
 * gets "live", or "lost" with the error. A stream that ends or fails is asked for again, unless the
 * visitor is refused. While the tab is hidden there is no stream.
 */
export async function follow(path, parameters, signal, on) {
  let pauseMs = PAUSE_MS_MIN;
  while (!signal.aborted) {
    await untilSeen();
    const turn = new AbortController();
    const stop = () => turn.abort();
    const hide = () => document.hidden && stop();
    document.addEventListener("visibilitychange", hide);
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
    try {
      const current = typeof parameters === "function" ? parameters() : parameters;
      await readEvents(await request(path, current, turn.signal), turn.signal, (kind, data) => {
        pauseMs = PAUSE_MS_MIN;
        if (kind === "refused") throw new Refused(data.code === "unauthorized" ? 401 : 403, data);
        on.state("live");
        on.event(kind, data);
      });
    } catch (error) {
      if (!turn.signal.aborted) {
        on.state("lost", error);
        if (error instanceof Refused && error.status < 500) return;
        pauseMs = Math.min(PAUSE_MS_MAX, pauseMs * 2);
      }
    } finally {
      stop(); // no response is left open behind an error
      document.removeEventListener("visibilitychange", hide);
      signal.removeEventListener("abort", stop);
    }
    if (!signal.aborted && !document.hidden) await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** Wait until the tab can be seen. */
function untilSeen() {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });
}

async function readEvents(response, signal, onEvent) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!signal.aborted) {
    const { value, done } = await soon(reader.read(), reader);
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const lines = event.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]);
      const fields = Object.fromEntries(lines);
      if (fields.data) onEvent(fields.event ?? "message", JSON.parse(fields.data));
    }
  }
}

/** Reject when nothing arrives for a long time, as after a cut cable. */
function soon(reading, reader) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`the server sent nothing for ${SILENCE_MS_MAX / 1000} s`));
      reader.cancel().catch(() => {});
    }, SILENCE_MS_MAX);
  });
  return Promise.race([reading, late]).finally(() => clearTimeout(timer));
}

/** Apply a JSON merge patch (RFC 7386). */
export function patched(target, patch) {
  const found = { ...target };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete found[key];
    else if (typeof value === "object" && !Array.isArray(value)) found[key] = patched(found[key] ?? {}, value);
    else found[key] = value;
  }
  return found;
}
