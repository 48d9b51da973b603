// Gradients over steps: one row per module and parameter, one cell per step. Colour is the norm on a log scale; zero, NaN,
// None and frozen have signs of their own.

import { h, replace, s } from "./dom.js";
import { cell, colours } from "./flow_cell.js";
import { isFinite, logScale, number, plural, shape } from "./format.js";
import { combined } from "./graph/model.js";

const ROW = 20;
const MOST_OPEN = 60; // rows that are shown before anything is opened
const SAID = { ok: "", zero: "all zeros", nan: "NaN or Inf", none: "None", frozen: "frozen" };
const RANK = ["nan", "ok", "zero", "none", "frozen"];

export class FlowView {
  constructor(data, store, actions) {
    this.data = data;
    this.store = store;
    this.actions = actions;
    const { rows, steps, unit } = data.flow;
    this.scale = logScale(rows.flatMap((row) => row.samples.map((sample) => sample?.[1])));
    this.tree = tree(rows);
    this.open = firstOpen(this.tree);
    this.said = h(
      "span",
      { class: "facts", "aria-live": "polite" },
      `${plural(rows.length, "parameter")} over ${plural(data.flow.total, unit, unit === "pass" ? "passes" : "steps")}`,
    );
    this.body = h("div", { class: "scroll" });
    this.element = h(
      "section",
      { class: "view flow-view", id: "flow" },
      h("div", { class: "toolbar" }, this.legend()),
      h("div", { class: "said" }, this.said),
      this.body,
    );
    store.on(["theme", "view"], () => this.draw());
    store.on(["row"], () => this.mark());
    window.addEventListener("resize", () => this.draw());
    this.steps = steps;
  }

  legend() {
    const ramp = h("span", { class: "ramp", role: "img", "aria-label": "norm, small to large" });
    const sign = (state, text) => {
      const canvas = h("canvas", { width: 28, height: 28, class: "legend-cell", "data-state": state });
      return h("span", { class: "legend-sign" }, canvas, text);
    };
    return h(
      "span",
      { class: "flow-legend" },
      `1e${this.scale.low}`,
      ramp,
      `1e${this.scale.high}`,
      sign("zero", "zero"),
      sign("nan", "NaN"),
      sign("none", "None"),
      sign("frozen", "frozen"),
      sign("edited", "changed by a hook"),
    );
  }

  draw() {
    if (this.store.get("view") !== "flow") return;
    const { rows, unit } = this.data.flow;
    if (!rows.length) {
      replace(
        this.body,
        h("p", { class: "empty" }, "No parameter got a gradient: no backward pass ended, and no optimizer stepped."),
      );
      return;
    }
    this.colours = colours(this.element);
    for (const canvas of this.element.querySelectorAll(".legend-cell")) {
      const context = canvas.getContext("2d");
      context.setTransform(2, 0, 0, 2, 0, 0);
      context.clearRect(0, 0, 14, 14);
      const state = canvas.dataset.state;
      cell(context, 0, 14, 14, state === "edited" ? ["ok", 1, 0, 1] : [state, 1, 0, 0], this.colours, () => 0.6);
    }
    const shown = [];
    const visit = (node, depth) => {
      for (const item of node.items) {
        shown.push([item, depth]);
        if (item.items && this.open.has(item.name)) visit(item, depth + 1);
      }
    };
    visit(this.tree, 0);
    const names = Math.min(
      330,
      0.4 * this.body.clientWidth,
      Math.max(
        150,
        ...shown.map(
          ([item, depth]) =>
            44 +
            16 * depth +
            7.3 * item.label.length +
            6.6 * (item.items ? (item.type ?? "") : shape(item.shape)).length,
        ),
      ),
    );
    this.width = Math.max(120, this.body.clientWidth - names - 100);
    this.cell = Math.max(2, Math.min(40, Math.floor(this.width / this.steps.length)));
    this.rows = [];
    const parts = [this.losses(names)];
    for (const [item, depth] of shown) parts.push(this.row(names, item, depth));
    parts.push(
      h(
        "div",
        { class: "flow-axis", style: `padding-left:${names}px` },
        h("span", {}, `${unit} ${this.steps[0].step}`),
        h(
          "span",
          { style: `margin-left:${Math.max(0, this.cell * this.steps.length - 120)}px` },
          `${unit} ${this.steps.at(-1).step}`,
        ),
      ),
    );
    replace(this.body, parts);
    this.mark();
  }

  /** The loss above its gradients. */
  losses(names) {
    const values = this.steps.map((step) => step.value);
    const known = values.filter(isFinite);
    if (known.length < 2) return null;
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const y = (value) => 34 - 28 * (high > low ? (value - low) / (high - low) : 0.5);
    const turns = Map.groupBy(
      this.steps.keys(),
      (place) => `${this.steps[place].optimizer} ${this.steps[place].at?.line}`,
    );
    const paths = [...turns.values()].map((places) => {
      let pen = "M";
      return places
        .map((place) => {
          if (!isFinite(values[place])) {
            pen = "M";
            return "";
          }
          const text = `${pen}${(place + 0.5) * this.cell} ${y(values[place]).toFixed(1)}`;
          pen = "L";
          return text;
        })
        .join("");
    });
    return h(
      "div",
      { class: "flow-row loss" },
      h("span", { class: "row-name", style: `width:${names}px` }, "loss"),
      s(
        "svg",
        {
          width: this.cell * this.steps.length,
          height: 40,
          role: "img",
          "aria-label": `loss from ${number(known[0])} to ${number(known.at(-1))}`,
        },
        paths.map((d, nth) => s("path", { class: "trend", d, "stroke-dasharray": nth ? `${2 * nth} 3` : null })),
      ),
      h("span", { class: "last" }, number(known[0]), " → ", number(known.at(-1))),
    );
  }

  row(names, row, depth) {
    const isModule = Boolean(row.items),
      open = this.open.has(row.name);
    const count = this.steps.length;
    const canvas = h("canvas", {
      width: 2 * this.cell * count,
      height: 2 * ROW,
      style: `width:${this.cell * count}px;height:${ROW}px`,
    });
    const context = canvas.getContext("2d");
    context.scale(2, 2);
    row.samples.forEach(
      (sample, place) => sample && cell(context, place * this.cell, this.cell, ROW, sample, this.colours, this.scale),
    );
    const last = row.samples.findLast((sample) => sample);
    const name = isModule ? `${open ? "▾" : "▸"} ${row.label}` : row.label;
    const label = `${row.name}: ${summary(row.samples, this.data.flow.unit)}`;
    const element = h(
      "div",
      {
        class: `flow-row${isModule ? " module" : ""}`,
        tabindex: 0,
        role: "button",
        "aria-label": label,
        title: row.name,
      },
      h(
        "span",
        { class: "row-name", style: `width:${names}px;padding-left:${16 * depth + (isModule ? 0 : 15)}px` },
        name,
        isModule ? h("i", {}, row.type ?? "") : h("i", {}, shape(row.shape)),
      ),
      canvas,
      h(
        "span",
        { class: "last" },
        last ? (last[0] === "ok" || last[0] === "frozen" ? number(last[1]) : SAID[last[0]]) : "",
      ),
    );
    const choose = () => {
      if (isModule) {
        if (!this.open.delete(row.name)) this.open.add(row.name);
        this.draw();
        [...this.body.querySelectorAll(".flow-row.module")].find((one) => one.title === row.name)?.focus();
      } else this.actions.showParameter(row);
    };
    let cursor = count - 1;
    element.addEventListener("click", choose);
    canvas.addEventListener("mousemove", (event) => this.tell(row, Math.floor(event.offsetX / this.cell)));
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") choose();
      else if (event.key === "ArrowLeft") this.tell(row, (cursor = Math.max(0, cursor - 1)));
      else if (event.key === "ArrowRight") this.tell(row, (cursor = Math.min(count - 1, cursor + 1)));
      else if (event.key === "ArrowDown") element.nextElementSibling?.focus();
      else if (event.key === "ArrowUp") element.previousElementSibling?.focus();
      else return;
      event.preventDefault();
    });
    this.rows.push([row, element]);
    return element;
  }

  tell(row, place) {
    const sample = row.samples[place],
      step = this.steps[place];
    if (!step) return;
    const said = sample
      ? [
          SAID[sample[0]],
          sample[1] === null ? "" : `norm ${number(sample[1])}`,
          sample[2] > 0 && sample[2] < 1 ? `${number(100 * sample[2])} % zeros` : "",
          sample[3] ? "changed by a hook" : "",
        ]
          .filter(Boolean)
          .join(", ")
      : "not looked at";
    replace(this.said, h("b", {}, row.name), ` · ${this.data.flow.unit} ${step.step}: ${said}`);
  }

  mark() {
    const chosen = this.store.get("row");
    for (const [row, element] of this.rows ?? [])
      element.classList.toggle("chosen", chosen !== null && row.id === chosen);
  }
}

/** Parameters in the modules that own them, and these in theirs; a module with nothing but one module in it is that one. */
function tree(rows) {
  const root = { name: "", label: "", items: [], inner: new Map() };
  for (const row of rows) {
    let node = root;
    for (const part of row.owner ? row.owner.split(".") : []) {
      if (!node.inner.has(part)) {
        const made = { name: node.name ? `${node.name}.${part}` : part, label: part, items: [], inner: new Map() };
        node.inner.set(part, made);
        node.items.push(made);
      }
      node = node.inner.get(part);
    }
    node.type ??= row.type;
    node.items.push({ ...row, label: row.owner ? row.name.slice(row.owner.length + 1) : row.name });
  }
  finish(root);
  return root;
}

/** A module's cell is the norm of all gradients in it, and their worst state. */
function finish(node) {
  node.items = node.items.map((item) => {
    if (!item.items) return item;
    finish(item);
    const [only] = item.items;
    return item.items.length === 1 && only.items ? { ...only, label: `${item.label}.${only.label}` } : item;
  });
  node.samples = node.items[0]?.samples.map((_, place) => {
    const known = node.items.map((item) => item.samples[place]).filter(Boolean);
    if (!known.length) return null;
    const state = RANK.find((one) => known.some((sample) => sample[0] === one));
    return [state, combined(known.map((sample) => sample[1])), null, known.some((sample) => sample[3]) ? 1 : 0];
  });
}

/** Level by level, as long as there are not too many rows. */
function firstOpen(root) {
  const open = new Set();
  let level = root.items.filter((item) => item.items),
    visible = root.items.length;
  while (level.length) {
    const more = level.reduce((sum, item) => sum + item.items.length, 0);
    if (visible + more > MOST_OPEN && visible > 3) break;
    visible += more;
    for (const item of level) open.add(item.name);
    level = level.flatMap((item) => item.items.filter((inner) => inner.items));
  }
  return open;
}

function summary(samples, unit) {
  const known = samples.filter(Boolean);
  const norms = known.map((sample) => sample[1]).filter(isFinite);
  const odd = ["zero", "nan", "none", "frozen"]
    .map((state) => [state, known.filter((sample) => sample[0] === state).length])
    .filter(([, count]) => count);
  return [
    norms.length ? `norm from ${number(norms[0])} to ${number(norms.at(-1))}` : "no gradient",
    ...odd.map(([state, count]) => `${SAID[state]} in ${plural(count, unit, unit === "pass" ? "passes" : "steps")}`),
  ].join(", ");
}
