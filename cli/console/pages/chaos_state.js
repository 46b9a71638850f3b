// The state of a replayed world at one event: servers, cut paths, the writer and acknowledgements.

export const [AT, KIND, SOURCE, TARGET, STATE, TEXT, HOLDERS] = [0, 1, 2, 3, 4, 5, 6];

const fresh = () => ({ index: -1, servers: new Map(), cuts: new Set(), writer: "", acked: 0, lastAck: -1, faults: [] });

/** Move through events; `at(index)` returns the state after the event with this index. */
export function worldStates(replay) {
  const { events } = replay;
  let now = fresh();
  function apply(event, index) {
    const [, kind, source, target, state, text] = event;
    if (kind === "server") now.servers.set(source, state === "resumed" ? "up" : state);
    else if (kind === "path") {
      const path = `${source}>${target}`;
      if (state === "cut") now.cuts.add(path);
      else now.cuts.delete(path);
    } else if (kind === "append" && state === "ok") {
      now.acked += 1;
      now.lastAck = index;
    } else if (kind === "note" && text.startsWith("writes as session")) now.writer = source;
  }
  return {
    at(index) {
      if (index < now.index) now = fresh();
      for (let next = now.index + 1; next <= index; next += 1) apply(events[next], next);
      now.index = index;
      return now;
    },
  };
}

/** The index of the last event that is not after a time; -1 if there is none. */
export function indexAt(events, atMs) {
  let [low, high] = [0, events.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events[middle][AT] <= atMs) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
