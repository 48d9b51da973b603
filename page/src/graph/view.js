// The graph view: drawing, zooming, opening and closing, walking by keyboard.

import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import { h, replace, s } from "../dom.js";
import { bytes, logScale, number, plural } from "../format.js";
import { Drawing } from "./draw.js";
import { Layout } from "./layout.js";
import { legend, markers } from "./legend.js";
import { Minimap } from "./minimap.js";
import { Model } from "./model.js";

/** A button with a sign, and a word where there is room. */
const button = (sign, title, onclick, word) =>
  h("button", { type: "button", title, "aria-label": word ?? title, onclick }, sign, word && h("span", {}, ` ${word}`));
const ALL_AT_ONCE = 4000; // nodes up to which everything can be opened with one click

export class GraphView {
  constructor(data, store) {
    this.data = data;
    this.store = store;
    this.models = new Map();
    this.sheet = s("g", { class: "sheet" });
    this.svg = s(
      "svg",
      {
        class: "graph",
        tabindex: 0,
        role: "application",
        "aria-label": "Graph of the backward pass. Arrow keys walk along it, Enter opens and closes a module.",
      },
      markers(),
      this.sheet,
    );
    this.zoom = zoom()
      .scaleExtent([0.04, 3])
      .on("zoom", ({ transform }) => this.moved(transform));
    select(this.svg).call(this.zoom).on("dblclick.zoom", null);
    this.svg.addEventListener("click", (event) => this.clicked(event));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.bar = h("div", { class: "toolbar" });
    this.opener = button("⊞", "Open every module", () => this.openAll(), "Open all");
    this.minimap = new Minimap((x, y) => this.look(x, y));
    this.element = h(
      "section",
      { class: "view graph-view", id: "graph" },
      this.bar,
      h("div", { class: "stage" }, this.svg, h("div", { class: "dock" }, this.lens(), this.minimap.element, legend())),
    );
    store.on(["pass"], () => this.choose());
    store.on(["selected", "line"], () => this.mark());
    store.on(["view"], () => this.shown());
  }

  get model() {
    const { pass } = this.store.state;
    if (!this.models.has(pass) && this.data.passes[pass]) {
      const model = new Model(this.data.passes[pass]);
      const norms = [...model.nodes.values()].map((node) => node.received);
      this.models.set(pass, { model, open: model.firstOpen(), layout: new Layout(model), scale: logScale(norms) });
    }
    return this.models.get(pass);
  }

  /** Another pass. */
  choose() {
    if (!this.model) {
      replace(this.element, h("p", { class: "empty" }, "No backward pass was seen, so there is no graph to draw."));
      return;
    }
    this.tools();
    this.redraw();
    this.fit(false);
  }

  tools() {
    const { data, store } = this;
    const { pass, nodes } = this.model.model;
    const chooser =
      data.passes.length > 1
        ? h(
            "select",
            {
              "aria-label": "Backward pass",
              onchange: (event) => store.set({ pass: Number(event.target.value), selected: null }),
            },
            data.passes.map((one, place) =>
              h("option", { value: place, selected: place === store.get("pass") }, one.title),
            ),
          )
        : h("span", { class: "pass-title" }, pass.title);
    const facts = [
      plural(nodes.size, "node"),
      pass.value === null ? null : `loss ${number(pass.value)}`,
      pass.saved ? `${bytes(pass.saved)} saved` : null,
    ]
      .filter(Boolean)
      .join(" · ");
    replace(
      this.bar,
      chooser,
      h("span", { class: "facts" }, facts),
      pass.error && h("span", { class: "failed", title: pass.error }, "this pass raised"),
    );
    this.opener.hidden = nodes.size > ALL_AT_ONCE;
  }

  lens() {
    return h(
      "div",
      { class: "lens" },
      button("+", "Nearer", () => select(this.svg).call(this.zoom.scaleBy, 1.3)),
      button("−", "Farther", () => select(this.svg).call(this.zoom.scaleBy, 1 / 1.3)),
      button("⤢", "Show everything (0)", () => this.fit(true)),
      this.opener,
      button("⊟", "Back to the modules that were open at first", () => this.closeAll(), "Close all"),
    );
  }

  /** The view has come to the front. */
  shown() {
    if (this.store.get("view") !== "graph" || !this.model) return;
    if (!this.fitted) this.fit(false);
    this.reveal(this.store.get("selected") ?? []);
  }

  // --- drawing

  redraw() {
    const { model, open, layout, scale } = this.model;
    this.size = layout.box(0, open);
    this.drawing = new Drawing(model, scale, this.data.findings);
    replace(this.sheet, this.drawing.draw(this.size));
    this.minimap.draw(this.drawing, this.size, model);
    this.mark();
  }

  moved(transform) {
    this.sheet.setAttribute("transform", transform);
    this.svg.classList.toggle("far", transform.k < 0.5);
    this.svg.classList.toggle("very-far", transform.k < 0.22);
    this.minimap.follow(transform, this.svg.clientWidth, this.svg.clientHeight);
  }

  /** The whole graph, or the part at the loss in a legible size. */
  fit(everything) {
    const { clientWidth: width, clientHeight: height } = this.svg;
    this.fitted = width > 0 && Boolean(this.size);
    if (!this.fitted) return;
    const whole = Math.min(1.1, (width - 40) / this.size.width, (height - 40) / this.size.height);
    const k = everything && whole > 0.1 ? whole : Math.max(whole, 1); // names are legible at 1
    const loss = this.drawing.places.get(this.standsFor(this.model.model.pass.roots[0]));
    const wide = this.size.width * k > width; // a large graph begins at its loss
    const centre = wide && loss ? loss.x + loss.width / 2 : this.size.width / 2;
    const y = this.size.height * k < height ? (height - this.size.height * k) / 2 : 14;
    this.go(zoomIdentity.translate(width / 2 - centre * k, Math.max(14, y)).scale(k));
  }

  /** Moves a point of the sheet into the middle. */
  look(x, y, k = this.transform().k) {
    this.go(zoomIdentity.translate(this.svg.clientWidth / 2 - k * x, this.svg.clientHeight / 2 - k * y).scale(k));
  }

  go(transform) {
    select(this.svg).call(this.zoom.transform, transform);
  }

  transform() {
    return this.svg.__zoom ?? zoomIdentity;
  }

  /** Opens or closes a box; it stays where it is on the screen. */
  toggle(group) {
    const { open, layout } = this.model;
    const before = this.drawing.places.get(group);
    if (!open.delete(group)) open.add(group);
    layout.forget(group);
    this.redraw();
    const after = this.drawing.places.get(group),
      { k, x, y } = this.transform();
    if (before && after) {
      const moved = before.x + before.width / 2 - (after.x + after.width / 2);
      this.go(zoomIdentity.translate(x + k * moved, y + k * (before.y - after.y)).scale(k));
    }
  }

  openAll() {
    const { model, open, layout } = this.model;
    for (const group of model.groups) open.add(group.id);
    layout.known.clear();
    this.redraw();
    this.fit(true);
  }

  closeAll() {
    const { model, open, layout } = this.model;
    open.clear();
    for (const group of model.firstOpen()) open.add(group);
    layout.known.clear();
    this.redraw();
    this.fit(false);
  }

  /** A node's name or a box's number as this pass has it, from an address; else null. */
  known(id) {
    const { nodes, groups } = this.model?.model ?? { nodes: new Map(), groups: [] };
    return nodes.has(id) ? id : groups[id] ? Number(id) : null;
  }

  /** Opens what is around the first two of some nodes or boxes (a finding's tensor and its cause) and centres the first.
   * The others are marked where they are, or on the closed box around them. */
  reveal(ids) {
    if (!this.model || !ids.length) return;
    const { model, open, layout } = this.model;
    const [own, other] = ids;
    const closed = [own, other ?? own].flatMap((id) => model.around(id)).filter((group) => !open.has(group));
    for (const group of closed) {
      open.add(group);
      layout.forget(group);
    }
    if (closed.length) this.redraw();
    const { clientWidth, clientHeight } = this.svg;
    if (!clientWidth) return;
    const k = Math.max(1, Math.min(this.transform().k, 1.3));
    const [wide, tall] = [clientWidth / k - 40, clientHeight / k - 40];
    const { places } = this.drawing;
    const isLeaf = (id) => Boolean(model.nodes.get(id)?.kind.endsWith("leaf"));
    const both =
      isLeaf(own) && other !== undefined && !isLeaf(other) ? around(places.get(own), places.get(other)) : null;
    const place = both && both.width < wide && both.height < tall ? both : places.get(own); // with the cause, if it fits
    const width = Math.min(place.width, wide), // of a box that is too large, the upper left part
      height = Math.min(place.height, tall);
    const { x, y } = middle({ ...place, width, height });
    this.look(x, y, k);
  }

  /** The selected nodes or box, every way from the loss to them, and what the chosen source line made. */
  mark() {
    if (!this.drawing) return;
    const { model } = this.model;
    const { selected, line } = this.store.state;
    const chosen = new Set(selected ?? []);
    const ends = new Set(
      [...chosen].flatMap((id) => (typeof id === "number" ? [...model.inside(id)] : model.nodes.has(id) ? [id] : [])),
    );
    const ways = ends.size ? model.waysTo(ends) : null;
    this.sheet.classList.toggle("dimmed", Boolean(ways));
    for (const [element, segment] of this.drawing.paths) {
      element.classList.toggle("on-way", Boolean(ways) && segment.edges.some((place) => ways.edges.has(place)));
    }
    for (const [id, element] of this.drawing.elements) {
      const isBox = typeof id === "number";
      const touched =
        ways &&
        (isBox ? chosen.has(id) || [...model.inside(id)].some((node) => ways.nodes.has(node)) : ways.nodes.has(id));
      element.classList.toggle("on-way", Boolean(touched));
      element.classList.toggle("selected", chosen.has(id));
      const made = !isBox && line && model.nodes.get(id).file === line.file && model.nodes.get(id).line === line.line;
      element.classList.toggle("of-line", Boolean(made));
      element.setAttribute("tabindex", chosen.has(id) ? 0 : -1);
    }
    this.minimap.mark(chosen);
  }

  // --- hands

  clicked(event) {
    const frame = event.target.closest("[data-id]");
    if (!frame) {
      this.store.set({ selected: null });
      return;
    }
    const id = named(frame);
    if (typeof id === "number") {
      if (frame.classList.contains("open") && !event.target.closest(".head, .chevron, .name")) {
        this.store.set({ selected: null });
        return;
      }
      this.toggle(id);
    }
    this.store.set({ selected: [id] });
    this.drawing.elements.get(id)?.focus({ preventScroll: true });
  }

  key(event) {
    const [current] = this.store.get("selected") ?? [];
    if (event.key === "0") this.fit(true);
    else if (event.key === "Enter" || event.key === " ") {
      if (typeof current === "number") this.toggle(current);
    } else if (event.key.startsWith("Arrow")) this.walk(event.key.slice(5), current);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Down and up along the edges, the strongest first; left and right to what stands beside. */
  walk(direction, current) {
    const { places, paths } = this.drawing;
    const shown = [...places].filter(([id]) => typeof id !== "number" || !this.model.open.has(id));
    if (current === undefined || !places.has(current)) {
      const first = shown.reduce((best, one) => (!best || one[1].y < best[1].y ? one : best), null);
      if (first) this.choosePlace(first[0]);
      return;
    }
    const here = middle(places.get(current));
    const { model } = this.model;
    const own = typeof current === "number" ? model.inside(current) : new Set([current]);
    let candidates = [];
    if (direction === "Down" || direction === "Up") {
      const [near, far] = direction === "Down" ? ["from", "to"] : ["to", "from"];
      const norms = new Map();
      for (const [, segment] of paths) {
        for (const place of segment.edges) {
          const edge = model.edges[place];
          if (own.has(edge[near]) && !own.has(edge[far]))
            norms.set(edge[far], Math.max(norms.get(edge[far]) ?? 0, Number(edge.norm) || 0));
        }
      }
      candidates = [...norms].sort((a, b) => b[1] - a[1]).map(([id]) => this.standsFor(id));
    } else {
      const side = direction === "Right" ? 1 : -1;
      candidates = shown
        .map(([id, place]) => [id, (middle(place).x - here.x) * side, Math.abs(middle(place).y - here.y)])
        .filter(([id, across, along]) => id !== current && across > 4 && along < 60 + across)
        .sort((a, b) => a[1] + 3 * a[2] - b[1] - 3 * b[2])
        .map(([id]) => id);
    }
    if (candidates.length) this.choosePlace(candidates[0]);
  }

  /** A node, or the closed box that hides it. */
  standsFor(id) {
    if (!this.model.model.nodes.has(id)) return undefined;
    return this.model.model.around(id).find((group) => !this.model.open.has(group)) ?? id;
  }

  choosePlace(id) {
    this.store.set({ selected: [id] });
    this.reveal([id]);
    this.drawing.elements.get(id)?.focus({ preventScroll: true });
  }
}

/** The smallest place that holds two others. */
function around(one, other) {
  const [x, y] = [Math.min(one.x, other.x), Math.min(one.y, other.y)];
  const width = Math.max(one.x + one.width, other.x + other.width) - x,
    height = Math.max(one.y + one.height, other.y + other.height) - y;
  return { x, y, width, height };
}

const middle = ({ x, y, width, height }) => ({ x: x + width / 2, y: y + height / 2 });

function named(frame) {
  const id = frame.getAttribute("data-id");
  return /^\d+$/.test(id) ? Number(id) : id;
}
