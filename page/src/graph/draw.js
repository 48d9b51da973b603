// The graph as SVG. Every state has a sign of its own, so that nothing is told by colour alone.

import { s } from "../dom.js";
import { clip, isFinite, number, plural, shape, short } from "../format.js";
import { STATES } from "./model.js";

/** A path through some points that leaves and reaches each of them straight down. */
function curve([first, ...others]) {
  let { x, y } = first;
  const steps = others.map((point) => {
    const half = (y + point.y) / 2;
    const step = `C${[x, half, point.x, half, point.x, point.y].map((at) => at.toFixed(1))}`;
    ({ x, y } = point);
    return step;
  });
  return `M${first.x.toFixed(1)},${first.y.toFixed(1)}${steps.join("")}`;
}

// A word on what is drawn where the gradient is not as it should be.
const SIGNS = {
  zero: "0",
  stop: "→ 0",
  nan: "NaN",
  born: "NaN born",
  none: "none",
  idle: "not run",
  damaged: "overwritten",
};

export class Drawing {
  constructor(model, scale, findings) {
    this.model = model;
    this.scale = scale; // norm -> 0 … 1
    this.findings = findings;
    this.places = new Map(); // node or box -> {x, y, width, height} on the sheet
    this.paths = []; // [element, segment]
    this.elements = new Map();
  }

  /** The whole sheet. */
  draw(layout) {
    const boxes = s("g", { class: "boxes" }),
      edges = s("g", { class: "edges" }),
      nodes = s("g", { class: "nodes" });
    this.level(layout, 0, 0, boxes, edges, nodes);
    return [boxes, edges, nodes];
  }

  level(layout, x, y, boxes, edges, nodes) {
    for (const segment of layout.segments) edges.append(this.segment(segment, x, y));
    for (const item of layout.items) {
      const place = { x: x + item.x, y: y + item.y, width: item.width, height: item.height };
      const id = item.node ?? item.box;
      this.places.set(id, place);
      if (item.inner) {
        boxes.append(this.keep(id, this.openBox(item.box, place)));
        this.level(item.inner, place.x, place.y, boxes, edges, nodes);
      } else {
        nodes.append(this.keep(id, item.node ? this.node(item.node, place) : this.closedBox(item.box, place)));
      }
    }
  }

  keep(id, element) {
    this.elements.set(id, element);
    return element;
  }

  segment(segment, x, y) {
    const points = segment.points.map((point) => ({ x: x + point.x, y: y + point.y }));
    const width = isFinite(segment.norm) && segment.norm > 0 ? 1 + 2.2 * this.scale(segment.norm) : 1.2;
    const arrow = segment.to === "out" ? null : `url(#arrow-${segment.state})`;
    const path = s("path", {
      d: curve(points),
      class: `edge ${segment.state}`,
      "stroke-width": width.toFixed(1),
      "marker-end": arrow,
    });
    const [before, after] = [points[Math.floor((points.length - 1) / 2)], points[Math.ceil((points.length - 1) / 2)]];
    const middle = { x: (before.x + after.x) / 2, y: (before.y + after.y) / 2 };
    const sign = { zero: "0", nan: "NaN" }[segment.state]; // a cut is marked at its node
    if (segment.stub) return this.stub(segment, path, points);
    const group = s(
      "g",
      {},
      path,
      sign && s("text", { class: `edge-sign ${segment.state}`, x: middle.x + 6, y: middle.y + 3 }, sign),
    );
    const count = segment.edges.length;
    path.append(s("title", {}, `${plural(count, "gradient")}, norm ${number(segment.norm)}`));
    this.paths.push([group, segment]);
    return group;
  }

  /** An edge to or from a hub: the end of it, and the hub's name. */
  stub(segment, path, points) {
    const far = segment.stub === "to" ? "from" : "to";
    const ends = new Set(segment.edges.map((place) => this.model.nodes.get(this.model.edges[place][far])));
    const name = [...ends].map((node) => (node.kind.endsWith("leaf") ? this.inBox(node) : short(node.name))).join(",");
    const [place] = segment.stub === "to" ? points : points.slice(-1);
    const text = s(
      "text",
      { class: "stub-name", x: place.x + 4, y: place.y + (segment.stub === "to" ? 5 : -1) },
      ends.size > 3 ? "…" : clip(name, 7),
    );
    const group = s("g", { class: "stub" }, path, text);
    this.paths.push([group, segment]);
    return group;
  }

  /** A frame that can be reached by keyboard and says what it is. */
  frame(id, classes, { x, y }, label, ...parts) {
    return s(
      "g",
      {
        class: classes,
        transform: `translate(${x},${y})`,
        "data-id": id,
        tabindex: -1,
        role: "button",
        "aria-label": label,
      },
      s("title", {}, label),
      parts,
    );
  }

  node(id, place) {
    const node = this.model.nodes.get(id);
    const leaf = node.kind.endsWith("leaf");
    const { width, height } = place;
    const sign = node.cut ? `✂ ${node.kind === "lost-leaf" ? "unused" : "cut"}` : SIGNS[node.state];
    const title = leaf ? clip(this.inBox(node), 19) : clip(short(node.name), sign ? 14 : 19);
    const under = leaf
      ? shape(node.shape)
      : [node.tensor ?? (node.op === node.name ? null : node.op), shape(node.shape)].filter(Boolean).join(" · ");
    const right = sign ?? (isFinite(node.received) ? number(node.received) : "");
    const where = node.line && !leaf ? `:${node.line}` : "";
    const label = [
      leaf ? `leaf ${node.tensor}` : `${node.name} of ${node.op ?? "?"}`,
      node.line ? `line ${node.line}` : "",
      STATES[node.state],
      isFinite(node.received) ? `norm ${number(node.received)}` : "",
      node.cut ?? "",
    ]
      .filter(Boolean)
      .join(", ");
    return this.frame(
      id,
      `node ${node.kind} ${node.state}${node.cut ? " cut" : ""}`,
      place,
      label,
      s("rect", { class: "face", width, height, rx: leaf ? height / 2 : 5 }),
      this.bar(node.received, width, height, leaf ? height / 2 : 5),
      s("text", { class: "name", x: leaf ? 15 : 9, y: 19 }, title),
      s(
        "text",
        { class: `value ${sign ? "sign" : ""}`, x: width - (leaf ? 15 : 8), y: leaf ? 35 : 19, "text-anchor": "end" },
        right,
      ),
      s("text", { class: "under", x: leaf ? 15 : 9, y: 35 }, clip(under, 22)),
      s("text", { class: "under", x: width - 8, y: 35, "text-anchor": "end" }, where),
      this.badges(node.hooks?.length ?? 0, this.model.flagged.get(id), width),
    );
  }

  /** A parameter's name as seen from the module that it is drawn in: weight, not net.fc.weight. */
  inBox(node) {
    const outer = [...this.model.around(node.id)]
      .reverse()
      .map((group) => this.model.groups[group].name)
      .find((name) => name && node.tensor.startsWith(name));
    return (outer ? node.tensor.slice(outer.length).replace(/^\./, "") : node.tensor) || "leaf";
  }

  closedBox(group, place) {
    const box = this.model.groups[group],
      sum = this.model.sum(group);
    const { width, height } = place;
    const received = this.model.received(group);
    const troubles = ["born", "nan", "stop", "zero", "damaged"].filter((state) => sum.states[state]);
    const sign = sum.cuts ? `✂ ${sum.cuts}` : troubles.length ? SIGNS[troubles[0]] : "";
    const right = sign || number(received);
    const counts = `${plural(sum.nodes - sum.leaves, "node")}${sum.leaves ? ` · ${plural(sum.leaves, "param")}` : ""}`;
    const label = `${box.label}${box.type ? `, ${box.type}` : ""}, closed, ${counts}, norm ${number(received)}`;
    const all = sum.states.lost === sum.nodes ? " lost" : sum.states.idle === sum.nodes ? " idle" : "";
    return this.frame(
      group,
      `box closed ${box.kind}${troubles.length || sum.cuts ? " trouble" : ""}${all}`,
      place,
      label,
      s("rect", { class: "shadow", x: 4, y: 4, width, height, rx: 6 }),
      s("rect", { class: "face", width, height, rx: 6 }),
      this.bar(received, width, height, 6),
      s("path", { class: "chevron", d: "M10 13 l5 5 l-5 5 z" }),
      this.title(box, 23, 22, 23 - right.length),
      s("text", { class: `value ${sign ? "sign" : ""}`, x: width - 9, y: 22, "text-anchor": "end" }, right),
      s("text", { class: "under", x: 23, y: 40 }, counts),
      this.badges(sum.hooks.size, sum.findings.size ? [...sum.findings] : undefined, width),
    );
  }

  openBox(group, place) {
    const box = this.model.groups[group];
    const { width, height } = place;
    const label = `${box.label}${box.type ? `, ${box.type}` : ""}, open`;
    const depth = this.model.around(group).length % 2;
    return this.frame(
      group,
      `box open ${box.kind} ${depth ? "odd" : "even"}`,
      place,
      label,
      s("rect", { class: "face", width, height, rx: 8 }),
      s("rect", { class: "head", width, height: 26, rx: 8 }),
      s("path", { class: "chevron", d: "M9 10 l10 0 l-5 6 z" }),
      this.title(box, 24, 18, Math.floor(width / 8) - 5),
      this.badges(box.hooks?.length ?? 0, this.model.flagged.get(group), width),
    );
  }

  /** A module's name, and as much of its type as there is room for. */
  title(box, x, y, room) {
    const name = clip(box.label, Math.max(room, 8));
    const left = room - name.length - 1;
    const type = box.type && left > 3 && s("tspan", { class: "type", dx: 7 }, clip(box.type, left));
    return s("text", { class: "name", x, y }, name, type);
  }

  /** The gradient's norm as the length of a bar along the lower edge, on a log scale. */
  bar(norm, width, height, radius) {
    if (!isFinite(norm) || norm <= 0) return null;
    const length = (width - 2 * radius) * (0.04 + 0.96 * this.scale(norm));
    return s("rect", { class: "bar", x: radius, y: height - 3.5, width: length.toFixed(1), height: 3, rx: 1.5 });
  }

  /** Right to left along the upper edge: the findings about it, how many hooks it has. */
  badges(hooks, findings, width) {
    const notes = findings?.every((place) => this.findings[place].kind === "note");
    const texts = [
      findings && [notes ? "finding note" : "finding", `⚑ ${clip(findings.map((place) => place + 1).join(","), 9)}`],
      hooks && ["hook", hooks === 1 ? "hook" : `${hooks} hooks`],
    ];
    let x = width + 6;
    return texts.filter(Boolean).map(([kind, text]) => {
      const wide = 14 + text.length * 7;
      x -= wide + 3;
      return s(
        "g",
        { class: `badge ${kind}`, transform: `translate(${x + 3},-11)` },
        s("rect", { width: wide, height: 19, rx: kind === "hook" ? 3 : 9.5 }),
        s("text", { x: wide / 2, y: 14, "text-anchor": "middle" }, text),
      );
    });
  }
}
