// Repeated requests of a page: one at a time, only while the page can be seen, errors in one place.

import { Refused } from "./api.js";
import { h, show, state } from "./dom.js";

/**
 * Call `read(signal)` now and every `intervalMs` after its end, and `draw` with its result. Nothing
 * is asked for while the tab is hidden. `blank` is where a state is shown while nothing was read;
 * later failures are told above it, and what was read stays. Returns `again` and `close`.
 */
export function poll({ intervalMs, read, draw, blank, what, frame, refused }) {
  const warning = h("div", { class: "warning", role: "status", hidden: true });
  let turn = null;
  let timer = null;
  let readAt = null;

  function fail(error) {
    if (error instanceof Refused && error.status === 401) return frame.signIn(error);
    if (error instanceof Refused && error.status === 403) return frame.forbid(error);
    if (error instanceof Refused && refused?.(error)) return close();
    const text = `${what} cannot be read now: ${error.message}. The console retries by itself.`;
    if (readAt === null) show(blank, state("Not available", text));
    else {
      if (!warning.isConnected) blank.before(warning);
      warning.textContent = `This is the state at ${readAt}. ${text}`;
      warning.hidden = false;
    }
  }
  async function again() {
    clearTimeout(timer);
    turn?.abort();
    const mine = new AbortController();
    turn = mine;
    if (document.hidden) return;
    try {
      const found = await read(mine.signal);
      if (mine.signal.aborted) return;
      readAt = new Date().toLocaleTimeString("en-GB");
      warning.hidden = true;
      draw(found);
    } catch (error) {
      if (mine.signal.aborted) return;
      fail(error);
    }
    if (!mine.signal.aborted) timer = setTimeout(again, intervalMs);
  }
  function close() {
    document.removeEventListener("visibilitychange", again);
    clearTimeout(timer);
    turn?.abort();
  }
  document.addEventListener("visibilitychange", again);
  again();
  return { again, close };
}
