// What is selected: a node, a parameter, a module. With its hooks, and its gradient over the steps.

import { h, replace, s } from "./dom.js";
import { bytes, change, isFinite, logScale, number, plural, shape } from "./format.js";
import { STATES } from "./graph/model.js";

export class DetailsView {
  constructor(data, store, actions, graph) {
    this.data = data;
    this.store = store;
    this.actions = actions;
    this.graph = graph;
    this.rows = new Map(data.flow.rows.map((row) => [row.id, row]));
    this.body = h("div", { class: "details-body" });
    this.jump = h(
      "button",
      { class: "jump", type: "button", onclick: () => store.set({ view: "graph" }) },
      "Show in the graph",
    );
    this.element = h(
      "section",
      { class: "details", "aria-label": "Selection", "aria-live": "polite" },
      h("div", { class: "panel-head" }, h("span", {}, "Selection"), this.jump),
      this.body,
    );
    store.on(["selected", "pass", "row", "view", "finding"], () => this.show());
    this.show();
  }

  show() {
    const [id] = this.store.get("selected") ?? [];
    const row = this.rows.get(this.store.get("row"));
    const model = this.graph.model?.model;
    this.jump.hidden = id === undefined || this.store.get("view") === "graph";
    if (id !== undefined && model) {
      const known = typeof id === "number" ? model.groups[id] : model.nodes.get(id);
      if (known)
        return replace(
          this.body,
          this.crumbs(model, id),
          typeof id === "number" ? this.box(model, known) : this.node(model, known),
        );
    }
    if (row) return replace(this.body, h("h3", {}, row.name), this.facts({ shape: shape(row.shape) }), this.chart(row));
    return replace(
      this.body,
      h(
        "p",
        { class: "empty" },
        !model
          ? "There is no graph: no backward pass ran."
          : this.store.get("finding") === null
            ? "Select a node, a module, a hook call or a parameter."
            : "Nothing in the graphs belongs to this finding.",
      ),
      model && this.memory(model),
    );
  }

  /** What the graph keeps in memory until its backward pass, by the lines that made it keep it. */
  memory(model) {
    const lines = new Map();
    for (const node of model.pass.nodes) {
      const key = node.line ? `${node.file}:${node.line}` : "";
      if (node.saved) lines.set(key, { at: node, saved: (lines.get(key)?.saved ?? 0) + node.saved });
    }
    const most = [...lines.values()].sort((a, b) => b.saved - a.saved).slice(0, 8);
    return (
      most.length > 0 && [
        h("h4", {}, `Kept for this pass: ${bytes(model.pass.saved)}, most of it by`),
        h(
          "div",
          { class: "memory" },
          most.map(({ at, saved }) => [
            h("span", {}, this.place(at) ?? "not known"),
            h("i", { style: `width:${(100 * saved) / most[0].saved}%` }),
            h("span", { class: "number" }, bytes(saved)),
          ]),
        ),
      ]
    );
  }

  crumbs(model, id) {
    const crumb = (group) =>
      h(
        "button",
        { class: "crumb", type: "button", onclick: () => this.actions.select([group]) },
        model.groups[group].label,
      );
    const around = model.around(id).filter((group) => group !== 0);
    return (
      around.length > 0 &&
      h(
        "nav",
        { class: "crumbs", "aria-label": "Modules around it" },
        around.map((group) => [crumb(group), h("span", { "aria-hidden": "true" }, " › ")]),
      )
    );
  }

  facts(facts) {
    const known = Object.entries(facts).filter(
      ([, value]) => value !== null && value !== undefined && value !== "" && value !== false,
    );
    return h(
      "dl",
      {},
      known.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    );
  }

  place(at) {
    if (!at || at.file === null || at.file === undefined || !at.line) return null;
    return h(
      "button",
      { class: "place", type: "button", onclick: () => this.actions.showLine(at.file, at.line) },
      `${this.data.files[at.file].name}:${at.line}`,
    );
  }

  node(model, node) {
    const leaf = node.kind.endsWith("leaf");
    const ways = model.waysTo([node.id]);
    const row = leaf ? this.rows.get(node.row) : null;
    return [
      h("h3", {}, leaf ? node.tensor : node.name),
      node.cut && h("p", { class: "cut-note" }, `✂ ${node.cut}`),
      node.state !== "ok" && !node.cut && h("p", { class: `state-note ${node.state}` }, STATES[node.state]),
      this.facts({
        op: node.op,
        tensor: leaf ? null : node.tensor,
        shape: node.shape && `${shape(node.shape)}  ${node.dtype ?? ""}`,
        gradient: node.received === null ? null : `norm ${number(node.received)}`,
        saved: node.saved ? bytes(node.saved) : null,
        ran: node.order ? `as number ${node.order}` : null,
        "from the loss": node.kind.startsWith("lost")
          ? null
          : plural(ways.nodes.size - 1, "node on the way", "nodes on the way"),
        line: this.place(node),
      }),
      this.hooks(node.hooks),
      row && this.chart(row),
    ];
  }

  box(model, box) {
    const sum = model.sum(box.id);
    const states = Object.entries(sum.states).filter(([state]) => state !== "ok");
    return [
      h("h3", {}, box.label, box.type && h("span", { class: "type" }, ` ${box.type}`)),
      this.facts({
        name: box.name,
        holds: `${plural(sum.nodes - sum.leaves, "node")}, ${plural(sum.leaves, "parameter")}`,
        gradient: `norm ${number(model.received(box.id))} arrives`,
        saved: sum.saved ? bytes(sum.saved) : null,
      }),
      states.map(([state, count]) =>
        h("p", { class: `state-note ${state}` }, `${plural(count, "node")}: ${STATES[state]}`),
      ),
      this.hooks(box.hooks),
    ];
  }

  hooks(ids) {
    if (!ids?.length) return null;
    const { registered, fired } = this.data.hooks;
    return [
      h("h4", {}, "Hooks"),
      h(
        "ul",
        { class: "hook-list" },
        ids.slice(0, 12).map((id) => {
          const hook = registered[id];
          const last = fired.findLast((firing) => firing.hook === id);
          const did = last
            ? `${plural(hook.fired, "call")}, last ${change(last.before, last.after, last.changed)}`
            : "never fired";
          return h("li", {}, h("b", {}, hook.name), ` ${hook.kind}: ${did} `, this.place(hook.at));
        }),
      ),
    ];
  }

  /** The norm over the steps, on a log scale; what cannot stand on it is marked below. */
  chart(row) {
    const { steps, unit } = this.data.flow;
    const norms = row.samples.map((sample) => (sample ? sample[1] : null));
    if (!norms.some((norm) => norm !== null && norm !== 0)) {
      const seen = norms.includes(0) ? `Zero, or none, in every ${unit}.` : `No gradient in any ${unit}.`;
      return h("p", { class: "state-note none" }, seen);
    }
    const [width, height, left] = [380, 120, 40];
    const scale = logScale(norms);
    const x = (place) => left + (width - left - 8) * (steps.length < 2 ? 0.5 : place / (steps.length - 1));
    const y = (norm) => height - 26 - (height - 38) * scale(norm);
    const drawn = norms.map((norm, place) => [norm, place]).filter(([norm]) => isFinite(norm) && norm > 0);
    const odd = row.samples
      .map((sample, place) => [sample, place])
      .filter(([sample]) => sample && sample[0] !== "ok" && sample[0] !== "frozen");
    const exponents = [scale.low, scale.high];
    return h(
      "figure",
      { class: "chart" },
      h("figcaption", {}, `Norm of its gradient per ${unit}`),
      s(
        "svg",
        {
          viewBox: `0 0 ${width} ${height}`,
          role: "img",
          "aria-label": `from ${number(drawn[0]?.[0])} to ${number(drawn.at(-1)?.[0])}`,
        },
        exponents.map((exponent) => [
          s("line", { class: "grid", x1: left, x2: width - 8, y1: y(10 ** exponent), y2: y(10 ** exponent) }),
          s("text", { class: "tick", x: left - 6, y: y(10 ** exponent) + 4, "text-anchor": "end" }, `1e${exponent}`),
        ]),
        s("path", {
          class: "trend",
          d: drawn
            .map(([norm, place], nth) => `${nth ? "L" : "M"}${x(place).toFixed(1)} ${y(norm).toFixed(1)}`)
            .join(""),
        }),
        drawn.length < 60 &&
          drawn.map(([norm, place]) => s("circle", { class: "dot", r: 2, cx: x(place), cy: y(norm) })),
        odd.map(([sample, place]) =>
          s(
            "text",
            { class: `mark ${sample[0]}`, x: x(place), y: height - 12, "text-anchor": "middle" },
            { zero: "○", nan: "✕", none: "–" }[sample[0]],
          ),
        ),
        s("text", { class: "tick", x: left, y: height - 2 }, steps[0]?.step),
        s(
          "text",
          { class: "tick", x: width - 8, y: height - 2, "text-anchor": "end" },
          `${unit} ${steps.at(-1)?.step}`,
        ),
      ),
    );
  }
}
