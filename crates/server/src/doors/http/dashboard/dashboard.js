// The dashboard: fetches the data every second while the page is visible, and shows it.
// Names and keys come from clients: they are set as texts, never as HTML.

import { Chart, element } from "/dashboard/chart.js";

const EVERY_MS = 1000;
const PATIENCE_MS = 5000;
const $ = (id) => document.getElementById(id);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const count = (number) => (number < 100_000 ? whole.format(number) : short.format(number));
const axis = (number) => (number < 10 ? String(Math.round(number * 10) / 10) : short.format(number));
const announce = (text) => { $("announce").textContent = text; };

/* ---------------------------------------------------------------- asking */

let token = kept("sessionStorage", "tidegate-token");
let timer = null;
let asking = null;
let lastSeen = null;

/** What a storage of the browser has: nothing where it may keep nothing. */
function kept(storage, name) {
  try { return window[storage].getItem(name); } catch { return null; }
}

function keep(storage, name, value) {
  try {
    if (value === null) window[storage].removeItem(name);
    else window[storage].setItem(name, value);
  } catch { /* then until the page is closed */ }
}

const headers = () => (token ? { Authorization: `Bearer ${token}` } : {});

async function poll() {
  clearTimeout(timer);
  asking?.abort();
  if (document.hidden) return;
  const mine = new AbortController();
  asking = mine;
  const patience = setTimeout(() => mine.abort(), PATIENCE_MS);
  try {
    const search = encodeURIComponent($("search").value);
    const response = await fetch(`/dashboard/data?search=${search}`, { headers: headers(), signal: mine.signal, cache: "no-store" });
    if (response.status === 401) return wantToken();
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    const data = await response.json();
    if (asking === mine) show(data);
  } catch {
    if (asking === mine) lose();
  } finally {
    clearTimeout(patience);
    if (asking === mine && $("token-form").hidden) timer = setTimeout(poll, EVERY_MS);
  }
}

function setToken(value) {
  token = value;
  keep("sessionStorage", "tidegate-token", value);
}

function wantToken() {
  const shown = token !== null;
  setToken(null);
  $("content").hidden = true;
  $("lost").hidden = true;
  setStatus("", "Token needed");
  $("token-wrong").textContent = shown ? "That is not the token." : "";
  if ($("token-form").hidden || shown) {
    $("token-form").hidden = false;
    $("token").focus();
  }
}

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = $("token").value.trim();
  // A header cannot have such a token.
  if (!/^[\x21-\x7e]+$/.test(typed)) {
    $("token-wrong").textContent = "That is not the token.";
    return;
  }
  setToken(typed);
  $("token").value = "";
  $("token-form").hidden = true;
  poll();
});

function lose() {
  // A screen reader reads this once; it does not read the age of the numbers.
  $("lost").hidden = false;
  $("lost-since").textContent =
    lastSeen === null ? "" : `The numbers are ${Math.round((performance.now() - lastSeen) / 1000)} seconds old.`;
  setStatus("lost", "Connection lost");
}

function setStatus(state, text) {
  $("status").className = `status ${state}`;
  // Only on a change, because a screen reader reads it.
  if ($("status-text").textContent !== text) $("status-text").textContent = text;
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : poll()));

/* --------------------------------------------------------------- showing */

const DECISIONS = [
  { name: "allowed", label: "allowed", stacked: true },
  { name: "denied", label: "denied", stacked: true },
  { name: "failed", label: "failed", stacked: true },
];
const all = new Chart({ name: "Decisions a second, all limits", series: DECISIONS, format: axis, announce, tall: true });
$("all-chart").append(all.root);
const lists = (history) => [history.allowed, history.denied, history.failed];
const last = (values) => values[values.length - 1] ?? 0;

function show(data) {
  lastSeen = performance.now();
  $("lost").hidden = true;
  $("content").hidden = false;
  setStatus("live", data.draining ? "Ending" : "Live");
  $("about").textContent = `Version ${data.version} · up ${span(data.uptime_s * 1000)} · store ${data.store.name}`;
  for (const name of ["allowed", "denied", "failed"]) {
    $(`${name}-now`).textContent = count(last(data.history[name]));
    $(`${name}-total`).textContent = count(data.totals[name]);
  }
  $("shadowed-total").textContent = count(data.totals.shadowed);
  $("without-store-total").textContent = count(data.totals.without_store);
  all.show(lists(data.history));
  showLimits(data.limits);
  showTop(data.top_keys);
  showStore(data.store);
  showConfig(data.config, data.limits);
}

const cards = new Map();

function showLimits({ served, matching, shown }) {
  const names = shown.map((limit) => limit.name);
  const told = matching === served ? `${count(served)} served` : `${count(matching)} of ${count(served)} match`;
  $("limits-count").textContent = shown.length < matching ? `${told}; the ${shown.length} with the most traffic are shown` : told;
  $("no-limits").hidden = shown.length > 0;
  for (const [name, card] of cards) {
    if (names.includes(name)) continue;
    card.root.remove();
    cards.delete(name);
  }
  for (const limit of shown) {
    if (!cards.has(limit.name)) cards.set(limit.name, new Card(limit.name));
    cards.get(limit.name).show(limit);
  }
  arrange(names);
  const options = $("limit-names");
  if (options.children.length !== names.length || names.some((name, at) => options.children[at].value !== name)) {
    options.replaceChildren(...names.map((name) => Object.assign(element("option"), { value: name })));
  }
}

/** Puts the cards in order, unless somebody is at one of them: what is looked at stays where it is. */
function arrange(names) {
  const list = $("limits");
  const fresh = names.filter((name) => !cards.get(name).root.isConnected);
  const busy = list.matches(":hover") || list.contains(document.activeElement);
  const wanted = names.map((name) => cards.get(name).root);
  if (busy) return list.append(...fresh.map((name) => cards.get(name).root));
  if (wanted.some((root, at) => list.children[at] !== root)) list.replaceChildren(...wanted);
}

class Card {
  constructor(name) {
    this.root = element("li", "card limit");
    const heading = element("h3", "", name);
    this.tag = element("span", "tag", "shadow: not enforced");
    heading.append(this.tag);
    this.quota = element("p", "note");
    const rates = element("p", "rates");
    this.rates = DECISIONS.map((one) => {
      const rate = element("span");
      const number = element("b");
      rate.append(element("i", `key ${one.name}`), number, ` ${one.label}/s`);
      rates.append(rate);
      return { rate, number, name: one.name };
    });
    this.chart = new Chart({ name: `Decisions a second of ${name}`, series: DECISIONS, format: axis, announce });
    this.root.append(heading, this.quota, rates, this.chart.root);
  }

  show(limit) {
    this.quota.textContent = limit.quota ? words(limit.quota) : "No quota of its own";
    this.tag.hidden = !limit.quota?.shadow;
    for (const { rate, number, name } of this.rates) {
      number.textContent = count(last(limit.history[name]));
      rate.hidden = name === "failed" && limit.totals.failed === 0;
      rate.title = `${whole.format(limit.totals[name])} in all`;
    }
    this.chart.show(lists(limit.history));
  }
}

function words(quota) {
  if (quota.algorithm === "concurrency") {
    return `concurrency, ${whole.format(quota.capacity)} at once, a lease for ${span(quota.period_ms)}`;
  }
  const burst = quota.capacity === quota.rate ? "" : `, capacity ${whole.format(quota.capacity)}`;
  return `${quota.algorithm.replace("_", " ")}, ${rateOf(quota)}${burst}`;
}

const rateIn = (quota) => (quota.algorithm === "concurrency" ? `leases of ${span(quota.period_ms)}` : rateOf(quota));

function rateOf({ rate, period_ms }) {
  const one = { 1000: "second", 60_000: "minute", 3_600_000: "hour", 86_400_000: "day" }[period_ms];
  return `${whole.format(rate)} ${one ? `a ${one}`.replace("a hour", "an hour") : `in ${span(period_ms)}`}`;
}

let topShown = "";

function showTop({ shown, hidden, skipped }) {
  const missed = skipped > 0 ? ` ${count(skipped)} denials came too fast to be looked at.` : "";
  const hashed = hidden ? " Keys are hidden: a short hash stands for each." : "";
  $("top-note").textContent = `In the last five to ten minutes.${hashed}${missed}`;
  $("top-empty").hidden = shown.length > 0;
  $("top").hidden = shown.length === 0;
  // Rows are rebuilt only when their keys change, so that a focused button keeps its focus.
  const rows = JSON.stringify(shown.map((one) => [one.limit, one.kind, one.key, one.askable]));
  if (rows !== topShown) {
    const focused = document.activeElement?.closest("#top-rows tr")?.dataset.row;
    $("top-rows").replaceChildren(...shown.map(topRow));
    topShown = rows;
    if (focused) [...$("top-rows").children].find((row) => row.dataset.row === focused)?.querySelector("button")?.focus();
  }
  shown.forEach((one, at) => {
    const cell = $("top-rows").children[at].cells[2];
    cell.textContent = count(one.denied);
    cell.title = one.at_least === one.denied ? "" : `at least ${whole.format(one.at_least)}`;
  });
}

function topRow(one) {
  const row = element("tr");
  row.dataset.row = JSON.stringify([one.limit, one.kind, one.key]);
  const key = element("td", "mono", one.kind === "global" ? "everybody" : one.key || "(empty text)");
  const action = element("td", "number");
  if (one.whole && one.askable) {
    const button = element("button", "", "Look up");
    button.type = "button";
    button.setAttribute("aria-label", `Look up ${key.textContent} of ${one.limit}`);
    button.addEventListener("click", () => {
      $("key-limit").value = one.limit;
      $("key-kind").value = one.kind;
      $("key-text").value = one.key;
      kindChanged();
      askForKey("check");
    });
    action.append(button);
  }
  row.append(key, element("td", "", one.limit), element("td", "number"), action);
  return row;
}

let latency = null;

function showStore(store) {
  const figures = [];
  if (store.memory) {
    figures.push(["Keys in memory", whole.format(store.memory.keys)], ["Memory taken", bytes(store.memory.bytes)]);
    figures.push(["Busy keys forgotten", whole.format(store.memory.forgotten_busy), "for want of room"]);
  }
  if (store.calls) {
    const { calls, errors, p50_us, p99_us } = store.calls;
    figures.push(["Breaker", store.breaker.replace("_", " "), store.breaker === "closed" ? "calls pass" : "the store is left alone"]);
    figures.push(["Calls", `${count(last(calls))} /s`], ["p50", micros(p50_us[p50_us.length - 1])], ["p99", micros(p99_us[p99_us.length - 1])]);
    figures.push(["Errors", `${count(last(errors))} /s`, `${count(errors.reduce((a, b) => a + b, 0))} in five minutes`]);
    latency ??= storeCharts();
    latency.time.show([p50_us, p99_us]);
    latency.errors.show([errors]);
  }
  setFigures($("store-figures"), [["Store", store.name], ...figures]);
}

function storeCharts() {
  const time = new Chart({
    name: "How long calls of the store take", format: micros, announce, least: 100,
    series: [{ name: "p50", label: "p50" }, { name: "p99", label: "p99" }],
  });
  const errors = new Chart({ name: "Errors of the store a second", format: axis, announce, series: [{ name: "errors", label: "errors", stacked: true }] });
  const titles = ["How long calls take: half of them (p50), and 99 of 100 (p99)", "Errors a second"];
  $("store-chart").className = "charts";
  [time, errors].forEach((chart, at) => {
    const box = element("div");
    box.append(element("p", "note", titles[at]), chart.root);
    $("store-chart").append(box);
  });
  return { time, errors };
}

/** Sets names and values, and keeps the elements where only values change. */
function setFigures(list, figures) {
  if (list.children.length !== figures.length) {
    list.replaceChildren(...figures.map(() => {
      const figure = element("div", "figure");
      figure.append(element("dt"), element("dd"), element("dd", "sub"));
      return figure;
    }));
  }
  figures.forEach(([name, value, sub = ""], at) => {
    const [dt, dd, below] = list.children[at].children;
    [dt.textContent, dd.textContent, below.textContent] = [name, value, sub];
  });
}

let configShown = "";

function showConfig(config, { served, shown: limits }) {
  const wrong = config.error ?? "";
  $("wrong-config").hidden = wrong === "";
  if ($("wrong-config-text").textContent !== wrong) {
    $("wrong-config-text").textContent = wrong;
    if (wrong) announce("The config was changed and is wrong.");
  }
  const source = config.demo ? "The built-in demonstration" : "Read";
  const loaded = new Date(config.loaded_ms).toLocaleString();
  const times = (number, what) => (number ? `, ${what} ${number === 1 ? "once" : `${whole.format(number)} times`}` : "");
  const part = limits.length < served ? ` Of ${count(served)} limits those shown above; search by name for others.` : "";
  $("config-note").textContent = `${source}, ${loaded}${times(config.reloads, "reloaded")}${times(config.refused, "refused")}.${part}`;
  const rows = limits.filter((limit) => limit.quota).sort((one, other) => (one.name < other.name ? -1 : 1));
  const shown = JSON.stringify(rows.map((limit) => [limit.name, limit.quota]));
  if (shown === configShown) return;
  configShown = shown;
  $("config-rows").replaceChildren(...rows.map(({ name, quota }) => {
    const row = element("tr");
    row.append(element("td", "", name), element("td", "", quota.algorithm), element("td", "number", rateIn(quota)));
    row.append(element("td", "number", whole.format(quota.capacity)), element("td", "", quota.shadow ? "shadow" : "enforced"));
    return row;
  }));
}

/* --------------------------------------------------------------- one key */

function kindChanged() {
  const everybody = $("key-kind").value === "global";
  $("key-text").disabled = everybody;
  $("key-text").placeholder = $("key-kind").value === "parts" ? '["tenant","user"]' : "";
}

/** The request, or nothing after saying what is wrong with it. */
function wantedKey() {
  const [limit, kind, text] = [$("key-limit").value, $("key-kind").value, $("key-text").value];
  if (kind === "global") return { limit, key: null };
  if (kind === "text") return { limit, key: text };
  if (kind === "client") return { limit, key: { client: text } };
  try {
    const key = JSON.parse(text);
    if (Array.isArray(key) && key.length && key.every((part) => typeof part === "string")) return { limit, key };
  } catch { /* reported below */ }
  answer(element("p", "no", 'Expected a JSON list of texts, such as ["tenant","user"].'));
  return null;
}

const answer = (...shown) => $("key-answer").replaceChildren(...shown);

async function askForKey(op, body = wantedKey()) {
  if (!body) return;
  try {
    const response = await fetch(`/v1/${op}`, {
      method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
    if (response.status === 401) return wantToken();
    if (!response.ok) return answer(element("p", "no", await problem(response)));
    const decision = await response.json();
    if (op === "reset") return answer(didReset(decision));
    showDecision(decision);
  } catch {
    answer(element("p", "no", "The server cannot be reached."));
  }
}

function didReset(decision) {
  if (decision.reason !== "store") return element("p", "yes", "It is as good as new.");
  return element("p", "no", "The store cannot be asked: nothing was reset there. Try again when it is back.");
}

async function problem(response) {
  const text = await response.text();
  try {
    const { title, detail } = JSON.parse(text);
    return detail ?? title ?? text;
  } catch {
    return text || `The server answered ${response.status}.`;
  }
}

function showDecision(decision) {
  const verdict = decision.allowed ? element("p", "yes", "A request now would be allowed.") : element("p", "no", "A request now would be denied.");
  const list = element("dl");
  const line = (name, value) => list.append(element("dt", "", name), element("dd", "", value));
  line("Remaining", `${whole.format(decision.remaining)} of ${whole.format(decision.limit)}`);
  if (decision.retry_after_ms !== null) line("Retry after", span(decision.retry_after_ms));
  line("As good as new after", span(decision.reset_after_ms));
  if (decision.reason) line("Reason", decision.reason);
  answer(verdict, list);
}

$("key-kind").addEventListener("change", kindChanged);
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  askForKey("check");
});
let toReset = null;
$("reset").addEventListener("click", () => {
  if (!$("key-form").reportValidity()) return;
  toReset = wantedKey();
  if (!toReset) return;
  const key = toReset.key === null ? "everybody" : JSON.stringify(toReset.key);
  $("confirm-text").textContent = `${key} gets the whole quota of ${toReset.limit} again, at once.`;
  $("confirm").showModal();
});
$("confirm-no").addEventListener("click", () => $("confirm").close());
$("confirm-yes").addEventListener("click", () => {
  $("confirm").close();
  askForKey("reset", toReset);
});

/* ------------------------------------------------------- words and theme */

function span(ms) {
  const units = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"]];
  const at = units.findIndex(([unit]) => ms >= unit);
  if (at < 0) return `${ms} ms`;
  const [unit, name] = units[at];
  const rest = Math.floor((ms % unit) / (units[at + 1]?.[0] ?? 1));
  if (name === "s") return `${Math.ceil(ms / 100) / 10} s`;
  return rest ? `${Math.floor(ms / unit)} ${name} ${rest} ${units[at + 1][1]}` : `${Math.floor(ms / unit)} ${name}`;
}

function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(number, 1)) / 3), units.length - 1);
  return `${(number / 1000 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

function micros(number) {
  if (number === null || number === undefined) return "none";
  if (number < 1000) return `${Math.round(number)} µs`;
  return number < 1_000_000 ? `${Math.round(number / 100) / 10} ms` : `${Math.round(number / 100_000) / 10} s`;
}

const THEMES = ["system", "light", "dark"];

function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").textContent = `Theme: ${theme}`;
  keep("localStorage", "tidegate-theme", theme);
}

const stored = kept("localStorage", "tidegate-theme");
setTheme(THEMES.includes(stored) ? stored : "system");
$("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "system";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});
$("search").addEventListener("input", poll);
kindChanged();
poll();
