// The frame of the console: pages by address, connection, notices, theme and sign-in.

import { follow, get, patched, Refused, token } from "./api.js";
import { chaosPage } from "./chaos.js";
import { h, show, state } from "./dom.js";
import { durabilityPage } from "./durability.js";
import { operationsPage } from "./operations.js";
import { regionsPage } from "./regions.js";
import { streamPage } from "./stream.js";
import { streamsPage } from "./streams.js";

const PAGES = {
  regions: { title: "Regions", make: regionsPage, isOfCluster: true },
  streams: { title: "Streams", make: streamsPage },
  stream: { title: "Stream", make: streamPage, isHidden: true },
  durability: { title: "Durability", make: durabilityPage, isOfCluster: true },
  chaos: { title: "Chaos", make: chaosPage, isOfCluster: true },
  operations: { title: "Operations", make: operationsPage, isOfCluster: true },
};

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const notice = document.getElementById("notice");
let session = null;
let snapshot = null;
let page = null;
let following = null;

// --- theme ---------------------------------------------------------------------------------------

const theme = document.getElementById("theme");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function applyTheme(chosen) {
  const isDark = chosen ? chosen === "dark" : prefersDark.matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  theme.textContent = isDark ? "Light mode" : "Dark mode";
  theme.setAttribute("aria-label", `${isDark ? "Light" : "Dark"} mode`);
}
theme.addEventListener("click", () => {
  const chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("rhumbline.theme", chosen);
  applyTheme(chosen);
});
prefersDark.addEventListener("change", () => applyTheme(localStorage.getItem("rhumbline.theme")));
applyTheme(localStorage.getItem("rhumbline.theme"));

// --- connection ----------------------------------------------------------------------------------

function setConnection(word, kind) {
  if (connection.textContent !== word) connection.textContent = word;
  connection.className = `state ${kind}`;
}

function setNotice(text) {
  if (notice.textContent !== (text ?? "")) notice.textContent = text ?? "";
  notice.hidden = !text;
}

function followCluster() {
  following?.abort();
  following = new AbortController();
  follow("/api/events", {}, following.signal, {
    event(kind, data) {
      if (kind === "unavailable") {
        setConnection("no data", "bad");
        setNotice(`The state of the cluster is unknown: ${data.error}`);
        return;
      }
      snapshot = kind === "snapshot" ? data : patched(snapshot, data);
      setConnection(snapshot.is_stale ? "old data" : "live", snapshot.is_stale ? "bad" : "good");
      setNotice(snapshot.is_stale ? `This is the state at ${snapshot.sampled_at}; the metadata store does not respond: ${snapshot.error}` : "");
      page?.update?.(snapshot);
    },
    state(word, error) {
      if (word === "live") return;
      setConnection("disconnected", "bad");
      if (error instanceof Refused && error.status === 401) signIn(error);
      else if (error instanceof Refused && error.status === 403) forbid(error);
      else {
        const why = error instanceof Refused ? `There are no live data now: ${error.message}.` : "The console's server does not respond.";
        if (error instanceof Refused) setConnection("no data", "bad");
        setNotice(`${why} ${snapshot ? `This is the state at ${snapshot.sampled_at}. ` : ""}The console retries by itself.`);
      }
    },
  });
}

// --- pages ---------------------------------------------------------------------------------------

function addressed() {
  const [name, query] = location.hash.replace(/^#\/?/, "").split("?");
  return [Object.hasOwn(PAGES, name) ? name : session?.sees_cluster === false ? "streams" : "regions", new URLSearchParams(query ?? "")];
}

function showPages(current) {
  const shown = Object.entries(PAGES).filter(([, one]) => !one.isHidden);
  show(document.getElementById("pages"), shown.map(([name, one]) =>
    h("a", { href: `#/${name}`, "data-key": name, "aria-current": name === current || (current === "stream" && name === "streams") ? "page" : null }, one.title)));
}

function openPage() {
  page?.close?.();
  page = null;
  const [name, parameters] = addressed();
  showPages(name);
  document.title = `${PAGES[name].title} – Rhumbline`;
  if (PAGES[name].isOfCluster && session?.sees_cluster === false) {
    forbid(new Error("no grant allows you to read the cluster"));
    return;
  }
  main.dataset.page = name;
  page = PAGES[name].make(main, parameters, { signIn, forbid, snapshot: () => snapshot, mayAct: () => session?.may_act === true });
  if (snapshot) page.update?.(snapshot);
}

function forbid(error) {
  page?.close?.();
  page = null;
  const who = session ? `You are ${session.principal}: ` : "";
  show(main, state("Not permitted", `${who}${error.message}.`,
    h("p", {}, "An administrator can grant it with ", h("code", {}, `rhumbline access grant ${session?.principal ?? "PRINCIPAL"} read cluster`),
      ", or for single streams. The streams that you may read are listed under ", h("a", { href: "#/streams" }, "Streams"), ".")));
  main.dataset.page = "forbidden";
}

function signIn(error) {
  page?.close?.();
  page = null;
  following?.abort();
  setConnection("signed out", "bad");
  setNotice("");
  main.dataset.page = "sign-in";
  const field = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const form = h("form", { class: "sign-in" },
    h("h1", {}, "Sign in"),
    h("p", {}, `Not signed in: ${error.message}. Enter a token that the proxies of this cluster accept. It is kept until this tab is closed.`),
    h("label", { for: "token" }, "Token"), field, h("button", { type: "submit" }, "Sign in"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(field.value.trim());
    start();
  });
  show(main, form);
  field.focus();
}

async function start(isRepeated = false) {
  if (!isRepeated) show(main, state("Loading", "Reading the state of the cluster."));
  try {
    session = await get("/api/session");
  } catch (error) {
    if (error instanceof Refused && error.status === 401) signIn(error);
    else {
      setConnection("disconnected", "bad");
      setNotice(error instanceof Refused ? `The console cannot respond now: ${error.message}.` : "The console's server does not respond.");
      show(main, state("Not connected", "The console retries by itself."));
      setTimeout(start, 2000, true);
    }
    return;
  }
  setNotice("");
  if (session.sees_cluster) followCluster();
  else setConnection(session.principal, "plain");
  openPage();
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the page that is shown
  main.focus();
});
addEventListener("hashchange", () => {
  if (session === null || main.dataset.page === "sign-in") return;
  openPage();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
start();
