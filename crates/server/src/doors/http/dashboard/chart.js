// A chart of the last seconds: lines or stacked areas, axes, and a readout for the pointer and the arrow keys.

const SVG = "http://www.w3.org/2000/svg";

/** How many seconds are shown. */
export const SECONDS = 300;

/** An element with a class and a text. Texts are never read as HTML. */
export function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

/** The next number at which an axis can end, so that its middle is a round number as well. */
function roundUp(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(number, 1)));
  return [1, 2, 3, 4, 6, 8, 10].map((step) => step * power).find((end) => end >= number);
}

/** The values of the last seconds; before the first, nothing was. */
function filled(values) {
  const shown = values.slice(-SECONDS);
  return [...new Array(SECONDS - shown.length).fill(null), ...shown];
}

export class Chart {
  /**
   * @param name what it shows, for those who do not see it
   * @param series [{ name, label, stacked }], from the bottom up
   * @param format how a value is written
   */
  constructor({ name, series, format, least = 10, announce, tall = false }) {
    Object.assign(this, { name, series, format, least, announce });
    this.values = series.map(() => filled([]));
    this.at = null;
    this.root = element("div", tall ? "chart tall" : "chart");
    this.plot = element("div", "plot");
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "img");
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${SECONDS - 1} 100`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    this.paths = series.map((one) => ({ area: path(`area ${one.name}`), line: path(`line ${one.name}`) }));
    // The lowest area is drawn last, so that empty areas above it do not cover its edge.
    for (const { area, line } of this.paths.toReversed()) svg.append(area, line);
    this.ticks = [0, 50, 100].map((height) => {
      const rule = element("div", "rule");
      rule.style.top = `${100 - height}%`;
      const label = element("span", "up");
      label.style.top = `${100 - height}%`;
      if (height) this.plot.append(rule);
      this.plot.append(label);
      return { height, label };
    });
    this.cursor = element("div", "cursor");
    this.cursor.hidden = true;
    this.plot.append(svg, this.cursor);
    this.across = element("div", "across");
    this.across.append(element("span", "", "5 minutes ago"), element("span", "", "now"));
    this.readout = element("p", "readout");
    this.readout.hidden = true;
    this.root.append(this.plot, this.across, this.readout);
    this.listen();
  }

  listen() {
    const follow = (event) => {
      const box = this.plot.getBoundingClientRect();
      const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
      this.point(Math.round(share * (SECONDS - 1)));
    };
    this.plot.addEventListener("pointermove", follow);
    this.plot.addEventListener("pointerdown", follow);
    this.plot.addEventListener("pointerleave", () => this.point(null));
    this.plot.addEventListener("blur", () => this.point(null));
    this.plot.addEventListener("keydown", (event) => {
      const last = SECONDS - 1;
      const from = this.at ?? last;
      const to = { ArrowLeft: from - 1, ArrowRight: from + 1, PageUp: from - 30, PageDown: from + 30, Home: 0, End: last };
      if (event.key === "Escape") this.point(null);
      if (!(event.key in to)) return;
      event.preventDefault();
      this.point(Math.min(Math.max(to[event.key], 0), last));
      this.announce?.(this.readout.textContent);
    });
  }

  /** Shows other values, one list for each series, the newest last. */
  show(lists) {
    this.values = lists.map(filled);
    const sums = this.values[0].map((_, at) =>
      this.series.reduce((sum, one, index) => (one.stacked ? sum + (this.values[index][at] ?? 0) : sum), 0));
    const singles = this.series.flatMap((one, index) => (one.stacked ? [] : this.values[index].map((value) => value ?? 0)));
    const top = roundUp(Math.max(this.least, ...sums, ...singles));
    for (const { height, label } of this.ticks) label.textContent = this.format((top * height) / 100);
    const y = (value) => (100 - (value / top) * 100).toFixed(2);
    let below = new Array(SECONDS).fill(0);
    this.series.forEach((one, index) => {
      const values = this.values[index];
      const { area, line } = this.paths[index];
      if (!one.stacked) {
        line.setAttribute("d", broken(values, y));
        return;
      }
      const above = below.map((base, at) => base + (values[at] ?? 0));
      const anything = values.some((value) => value > 0);
      const first = anything ? values.findIndex((value) => value !== null) : SECONDS;
      const corners = (heights) => heights.map((value, at) => `${at},${y(value)}`).slice(first);
      const edge = corners(above).join("L");
      area.setAttribute("d", anything ? `M${edge}L${corners(below).reverse().join("L")}Z` : "");
      line.setAttribute("d", anything ? `M${edge}` : "");
      below = above;
    });
    this.plot.setAttribute("aria-label", `${this.name}, the last five minutes. ${this.describe(SECONDS - 1)} Arrow keys read older values.`);
    this.point(this.at);
  }

  /** Reads out one second, or none. */
  point(at) {
    this.at = at;
    for (const shown of [this.cursor, this.readout]) shown.hidden = at === null;
    this.across.hidden = at !== null;
    if (at === null) return;
    this.cursor.style.left = `${(at / (SECONDS - 1)) * 100}%`;
    this.readout.textContent = this.describe(at);
  }

  describe(at) {
    const ago = SECONDS - 1 - at;
    const when = ago === 0 ? "Last second" : `${ago} s ago`;
    const values = this.series.map((one, index) => {
      const value = this.values[index][at];
      return `${one.label} ${value === null || value === undefined ? "none" : this.format(value)}`;
    });
    return `${when}: ${values.join(", ")}.`;
  }
}

function path(className) {
  const made = document.createElementNS(SVG, "path");
  made.setAttribute("class", className);
  return made;
}

/** A line through the values there are, with gaps where there are none. */
function broken(values, y) {
  let drawing = false;
  return values.map((value, at) => {
    if (value === null || value === undefined) {
      drawing = false;
      return "";
    }
    // A single value between gaps is a short stroke, because a point would be invisible.
    const step = drawing ? `L${at},${y(value)}` : `M${at},${y(value)}h0.6`;
    drawing = true;
    return step;
  }).join("");
}
