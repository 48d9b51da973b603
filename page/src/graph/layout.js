// Places for all that is visible. Every open box is laid out by itself with dagre, and then takes part in the layout of
// the box around it as one thing of its size: levels are small, so even thousands of nodes take no time, and opening a
// box moves its neighbours apart without shuffling them.

import { graphlib, layout as dagre } from "@dagrejs/dagre";
import { combined, worst } from "./model.js";

export const SIZE = { op: [208, 46], leaf: [176, 44], box: [232, 52] }; // for text of 12 pixels
const HEAD = 30; // of an open box
const PAD = 16;
const PORT = 1;
const HUB = 6; // edges on one level, above which most of a thing's edges are drawn as stubs
const STUB = [18, 56]; // height, and width with its label

export class Layout {
  constructor(model) {
    this.model = model;
    this.known = new Map(); // open box -> its layout, until something in it opens or closes
  }

  /** Something in a box has changed. */
  forget(group) {
    for (let current = group; current !== null; current = this.model.groups[current].parent) this.known.delete(current);
  }

  /** {width, height, items, segments}: positions are relative to the box's own corner. */
  box(group, open) {
    const known = this.known.get(group);
    if (known) return known;
    const made = this.make(group, open);
    this.known.set(group, made);
    return made;
  }

  make(group, open) {
    const { model } = this;
    const graph = new graphlib.Graph({ multigraph: false });
    graph.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 30, edgesep: 10, marginx: 0, marginy: 0 });
    graph.setDefaultEdgeLabel(() => ({}));
    const inner = new Map();
    for (const child of model.children[group].groups) {
      const laid = open.has(child) ? this.box(child, open) : null;
      if (laid) inner.set(child, laid);
      const [width, height] = laid ? [laid.width, laid.height] : SIZE.box;
      graph.setNode(`b${child}`, { width, height, box: child });
    }
    for (const id of model.children[group].nodes) {
      const leaf = model.nodes.get(id).kind.endsWith("leaf");
      const [width, height] = leaf ? SIZE.leaf : SIZE.op;
      graph.setNode(id, { width, height, node: id });
    }
    const all = this.bundles(group);
    const stubs = this.stubs(all);
    const bundles = all.filter((bundle) => !stubs.has(bundle));
    for (const { from, to } of bundles) {
      if (from === "in" || to === "out") graph.setNode(from === "in" ? "in" : "out", { width: PORT, height: PORT });
    }
    const rank = ranks(bundles);
    const lowest = Math.max(0, ...rank.values());
    for (const { from, to } of bundles) {
      const minlen = to === "out" ? Math.max(1, lowest + 1 - (rank.get(from) ?? 0)) : 1; // gradients leave below everything
      graph.setEdge(from, to, { minlen, weight: from === "in" || to === "out" ? 1 : 2 });
    }
    dagre(graph);

    const root = group === 0;
    const top = root ? PAD : HEAD + PAD / 2;
    const items = [];
    let width = 0,
      height = 0;
    for (const name of graph.nodes()) {
      const { x, y, width: w, height: ht, box, node } = graph.node(name);
      if (name === "in" || name === "out") continue;
      const item = { x: x - w / 2 + PAD, y: y - ht / 2 + top, width: w, height: ht, box, node, inner: inner.get(box) };
      items.push(item);
      width = Math.max(width, item.x + w);
      height = Math.max(height, item.y + ht);
    }
    for (const { from, to } of bundles) {
      for (const point of graph.edge(from, to).points) width = Math.max(width, point.x + PAD);
    }
    width = Math.max(width + PAD, root ? 0 : SIZE.box[0]);
    height = height + PAD;
    const port = (name, y) => (graph.hasNode(name) ? { x: graph.node(name).x + PAD, y } : null);
    const ports = { in: port("in", HEAD), out: port("out", height) };
    const segments = bundles.map((bundle) => ({
      ...bundle,
      points: this.points(graph, bundle, ports, inner, top),
      ...this.looks(bundle.edges),
    }));
    segments.push(...this.stubSegments(stubs, items));
    return { width, height, items, segments, ports };
  }

  /** The bundles of a hub (a stack of all states, a weight that every step uses) that would only cross everything: bundle
   * -> the end at which it is drawn. What they lead to is connected otherwise, and the hub keeps one of them. */
  stubs(bundles) {
    const out = Map.groupBy(bundles, (bundle) => bundle.from),
      into = Map.groupBy(bundles, (bundle) => bundle.to);
    const isSource = (name) => out.get(name).length > HUB,
      isSink = (name) => into.get(name).length > HUB;
    const found = new Map();
    for (const bundle of bundles) {
      const { from, to } = bundle;
      if (to !== "out" && isSource(from) && into.get(to).some((other) => !isSource(other.from)))
        found.set(bundle, "to");
      else if (from !== "in" && isSink(to) && out.get(from).some((other) => !isSink(other.to)))
        found.set(bundle, "from");
    }
    const ran = (bundle, end) =>
      Math.max(...bundle.edges.map((place) => this.model.nodes.get(this.model.edges[place][end]).order ?? 0));
    for (const [groups, end, nearest] of [
      [out, "to", (a, b) => ran(a, "to") - ran(b, "to")],
      [into, "from", (a, b) => ran(b, "from") - ran(a, "from")],
    ]) {
      for (const own of groups.values()) {
        if (own.every((bundle) => found.get(bundle) === end)) found.delete([...own].sort(nearest)[0]);
      }
    }
    return found;
  }

  stubSegments(stubs, items) {
    const places = new Map(items.map((item) => [item.node ?? `b${item.box}`, item]));
    const taken = new Map();
    return [...stubs].map(([bundle, end]) => {
      const item = places.get(bundle[end]);
      const nth = taken.get(bundle[end] + end) ?? 0;
      taken.set(bundle[end] + end, nth + 1);
      const x = item.x + 14 + nth * STUB[1],
        y = end === "to" ? item.y : item.y + item.height;
      const points =
        end === "to"
          ? [
              { x, y: y - STUB[0] },
              { x, y },
            ]
          : [
              { x, y },
              { x, y: y + STUB[0] },
            ];
      return { ...bundle, points, ...this.looks(bundle.edges), stub: end };
    });
  }

  /** The edges of one level, bundled by the things that they connect there. */
  bundles(group) {
    const { model } = this;
    const found = new Map();
    const depth = model.around(group).length;
    model.edges.forEach((edge, place) => {
      const from = this.on(group, depth, edge.from),
        to = this.on(group, depth, edge.to);
      if (from === to || (from === null && to === null)) return;
      const [a, b] = [from ?? "in", to ?? "out"];
      const key = `${a}>${b}`;
      if (!found.has(key)) found.set(key, { from: a, to: b, edges: [] });
      found.get(key).edges.push(place);
    });
    return [...found.values()];
  }

  /** What stands for a node on the level of a box: the node itself, the box that holds it, or null if it is outside. */
  on(group, depth, id) {
    const node = this.model.nodes.get(id);
    if (node.group === group) return id;
    this.model.ways ??= new Map();
    let way = this.model.ways.get(node.group);
    if (!way) {
      way = [...this.model.around(node.group), node.group];
      this.model.ways.set(node.group, way);
    }
    return way[depth] === group ? `b${way[depth + 1]}` : null;
  }

  points(graph, { from, to }, ports, inner, top) {
    const points = graph.edge(from, to).points.map(({ x, y }) => ({ x: x + PAD, y: y + top }));
    if (points.length === 3) points.splice(1, 1); // to the next rank: straight down
    const corner = (name) => {
      const node = graph.node(name);
      return { x: node.x - node.width / 2 + PAD, y: node.y - node.height / 2 + top, height: node.height };
    };
    const start = from === "in" ? null : inner.get(graph.node(from).box);
    const end = to === "out" ? null : inner.get(graph.node(to).box);
    if (from === "in") points[0] = ports.in;
    else if (start?.ports.out) points[0] = { x: corner(from).x + start.ports.out.x, y: corner(from).y + start.height };
    if (to === "out") points[points.length - 1] = ports.out;
    else if (end?.ports.in) points[points.length - 1] = { x: corner(to).x + end.ports.in.x, y: corner(to).y };
    return points;
  }

  looks(places) {
    const edges = places.map((place) => this.model.edges[place]);
    return { state: worst(edges.map((edge) => edge.state)), norm: combined(edges.map((edge) => edge.norm)) };
  }
}

/** How many edges lead to each thing by the longest way, the port below left out. */
function ranks(bundles) {
  const inner = bundles.filter((bundle) => bundle.to !== "out");
  const waits = new Map(),
    next = Map.groupBy(inner, (bundle) => bundle.from);
  for (const { from, to } of inner) {
    waits.set(from, waits.get(from) ?? 0);
    waits.set(to, (waits.get(to) ?? 0) + 1);
  }
  const rank = new Map();
  const ready = [...waits.keys()].filter((name) => !waits.get(name));
  for (const name of ready) rank.set(name, 0);
  for (const name of ready) {
    for (const { to } of next.get(name) ?? []) {
      rank.set(to, Math.max(rank.get(to) ?? 0, rank.get(name) + 1));
      waits.set(to, waits.get(to) - 1);
      if (!waits.get(to)) ready.push(to);
    }
  }
  return rank;
}
