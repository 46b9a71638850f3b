// Chaos: choose a run of the simulator, start it, and look at its verdict and its trace.

import { get, Refused, token } from "./api.js";
import { replayPlayer } from "./chaos_player.js";
import { badge, count, h, plural, show, state, table } from "./dom.js";

const POLL_MS = 500;
const KINDS = { scenario: "Scenario", plan: "Random faults", bug: "Planted bug" };
const KIND_NOTES = {
  scenario: "A schedule of faults with expectations. The same seed gives the same run.",
  plan: "Faults that the seed draws at random, as in the project's tests.",
  bug: "A known mistake is put into a copy of the program, and seeds are run until the checkers find it. The installed program stays as it is.",
};

async function send(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  const document = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, document);
  return document;
}

export function chaosPage(main, parameters, frame) {
  const result = h("div", { id: "replay" });
  const progress = h("p", { role: "status", id: "progress" });
  let isClosed = false;
  let timer = null;
  let shownNumber = null;
  let isRunning = false;
  let player = null;
  let chooser = null;

  show(main, h("h1", {}, "Chaos"), state("Loading", "Reading the list of runs."));
  guarded(open);

  async function guarded(work) {
    try {
      await work();
    } catch (error) {
      if (isClosed) return;
      if (error instanceof Refused && error.status === 401) frame.signIn(error);
      else if (error instanceof Refused && error.status === 403) frame.forbid(error);
      else if (chooser) {
        say(`Not possible: ${error.message}.`);
        later();
      } else {
        show(main, h("h1", {}, "Chaos"), state("Not available", `The list of runs cannot be read now: ${error.message}. The console retries by itself.`));
        timer = setTimeout(() => guarded(open), 2000);
      }
    }
  }

  async function open() {
    const found = await get("/api/chaos");
    if (isClosed) return;
    if (!found.is_installed) {
      show(main, h("h1", {}, "Chaos"), state("Not installed", "The simulator is not part of this installation of Rhumbline. To add it, install rhumbline[lab] where the console runs."));
      return;
    }
    chooser = runChooser(found, parameters, {
      start: (wanted) => guarded(async () => {
        say("Starting the run.");
        await send("POST", "/api/chaos/run", wanted);
        await poll();
      }),
      cancel: () => guarded(async () => {
        await send("DELETE", "/api/chaos/run");
        await poll();
      }),
    });
    show(main, h("h1", {}, "Chaos"),
      h("p", { class: "note" }, "Rhumbline's own code runs in a simulated world with virtual time. Nothing happens to the cluster."),
      chooser.node, progress, result);
    await poll();
  }

  function say(text) {
    if (progress.textContent !== text) progress.textContent = text;
  }
  function later() {
    clearTimeout(timer);
    if (!isClosed) timer = setTimeout(() => guarded(poll), POLL_MS);
  }

  async function poll() {
    clearTimeout(timer);
    const found = await get("/api/chaos/run");
    if (isClosed) return;
    chooser.setRunning(found.state === "running");
    const wasRunning = isRunning;
    isRunning = found.state === "running";
    if (isRunning) {
      const seed = found.seed_now === null || found.seed_now === undefined ? "preparing the run" : `seed ${found.seed_now}`;
      say(`${KINDS[found.kind]} ${found.name}: ${seed}, ${Math.round(found.seconds)} s so far.`);
      if (!player) show(result, state("Running", "All visitors share this run. It is drawn here when it has ended."));
      later();
      return;
    }
    if (found.state === "failed") say(`The run of ${found.name} failed: ${found.error}.`);
    else if (found.state === "cancelled") say(`The run of ${found.name} was cancelled.`);
    if (!player) show(result, state("No run yet", "Choose a run above and start it. Its messages, quorums, fences and failures are drawn here."));
    if (found.state === "done" && shownNumber !== found.number) {
      const document = (await get("/api/chaos/replay", { number: found.number })).replay;
      if (isClosed) return;
      shownNumber = found.number;
      say("");
      showReplay(document);
      if (wasRunning) result.scrollIntoView({ block: "start" });
    }
  }

  function showReplay(document) {
    player?.close();
    player = replayPlayer(document);
    show(result, verdictOf(document, player), player.node, checksOf(document));
  }

  return {
    close() {
      isClosed = true;
      clearTimeout(timer);
      player?.close();
    },
  };
}

/** The form: a kind, one run of it, and a seed. */
function runChooser(found, parameters, on) {
  let kind = KINDS[parameters.get("kind")] ? parameters.get("kind") : "scenario";
  const kinds = h("div", { class: "kinds", role: "group", "aria-label": "Kind of run" });
  const name = h("select", { id: "run-name" });
  const seed = h("input", { id: "run-seed", type: "number", min: 0, max: found.seed_max, value: parameters.get("seed") ?? 1, required: true });
  const about = h("p", { class: "note", id: "run-about" });
  const start = h("button", { type: "submit", class: "primary" }, "Run");
  const cancel = h("button", { type: "button", hidden: true, onclick: on.cancel }, "Cancel");
  const node = h("form", { class: "chooser" },
    h("div", { class: "bar" }, kinds, h("label", { for: "run-name" }, "Run"), name, h("label", { for: "run-seed" }, "Seed"), seed, start, cancel), about);
  const describe = () => {
    const one = found.runs[kind].find((each) => each.name === name.value);
    about.textContent = [one?.about, KIND_NOTES[kind]].filter(Boolean).join(" ");
  };
  const fill = () => {
    show(kinds, Object.entries(KINDS).map(([each, title]) => h("button", { type: "button", "data-key": `kind ${each}`, "aria-pressed": String(each === kind), onclick: () => {
      kind = each;
      fill();
    } }, title)));
    show(name, found.runs[kind].map((one) => h("option", { value: one.name }, one.title)));
    const wanted = parameters.get("name") ?? { scenario: "region-cut-off", plan: "races", bug: "b1" }[kind];
    if (found.runs[kind].some((one) => one.name === wanted)) name.value = wanted;
    describe();
  };
  name.addEventListener("change", describe);
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    on.start({ kind, name: name.value, seed: seed.valueAsNumber });
  });
  fill();
  return {
    node,
    setRunning(isRunning) {
      start.disabled = isRunning;
      cancel.hidden = !isRunning;
    },
  };
}

function verdictOf(replay, player) {
  const { verdict, bug } = replay;
  const broken = [...new Set(verdict.problems.map((one) => one.id))];
  const failed = verdict.checks.filter((one) => !one.held).length;
  const words = verdict.is_good
    ? bug ? "The checkers did not find the planted bug" : "All checks passed"
    : bug ? `The checkers found the planted bug: ${broken.join(", ")} violated` : `Violated: ${[broken.join(", "), failed ? plural(failed, "expectation") : ""].filter(Boolean).join(", ")}`;
  return h("section", { class: `verdict ${verdict.is_good ? (bug ? "warn" : "good") : "bad"}`, id: "run-verdict", "data-good": String(verdict.is_good), "aria-label": "Verdict" },
    bug ? h("p", { class: "planted" }, badge("Planted bug", "warn"), ` This run contains a mistake on purpose: ${bug.title}.`) : null,
    h("h2", {}, words),
    h("p", {}, h("strong", {}, replay.title), replay.kind === "scenario" ? `, seed ${replay.seed}` : "",
      `: ${plural(verdict.invariants, "invariant")} evaluated, ${plural(verdict.acked, "append")} acknowledged, ${count(verdict.failed)} failed, ${count(verdict.unknown)} unknown; quorum ${replay.quorum.text}; ${(replay.lasts_ms / 1000).toFixed(1)} s of virtual time, ${plural(replay.events.length, "event")}${replay.left_out ? ` (${count(replay.left_out)} later ones are left out)` : ""}.`),
    broken.map((id) => {
      const examples = verdict.problems.filter((one) => one.id === id);
      return h("details", { class: "problem" },
        h("summary", {}, h("strong", {}, id), ` ${examples[0].means || "The run did not end as it should."} (${plural(examples.length, "example")})`),
        h("pre", { tabindex: 0, "aria-label": `Examples of ${id}` }, examples.map((one) => one.text).join("\n\n")));
    }),
    verdict.problems_left_out ? h("p", {}, `${count(verdict.problems_left_out)} more problems are left out.`) : null,
    player.hasEvents ? null : h("p", {}, "The trace is empty."));
}

function checksOf(replay) {
  const { checks } = replay.verdict;
  return checks.length === 0 ? null : table("Expectations of the scenario", [
    ["Expectation", (one) => one.text], ["Expected", (one) => one.wanted], ["Found", (one) => one.found],
    ["Verdict", (one) => badge(one.held ? "passed" : "failed", one.held ? "good" : "bad")],
  ], checks);
}
