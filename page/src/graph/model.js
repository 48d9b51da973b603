// One backward pass as a tree of boxes with nodes in them, and the questions that drawing and searching ask of it.

import { isFinite } from "../format.js";

export const STATES = {
  ok: "gradient arrived",
  zero: "the gradient is zero",
  stop: "a gradient that was not zero becomes zero here",
  nan: "NaN or Inf arrived",
  born: "NaN or Inf begins here",
  none: "no gradient",
  idle: "reachable, but it did not run",
  damaged: "what it had saved was overwritten",
  lost: "the gradient does not come here",
};

// What a bundle of edges is drawn as: the first of these that is among them.
const WORST = ["nan", "lost", "ok", "zero", "none", "idle"];

export class Model {
  constructor(pass) {
    this.pass = pass;
    this.nodes = new Map(pass.nodes.map((node) => [node.id, node]));
    this.groups = pass.groups;
    this.edges = pass.edges;
    this.children = this.groups.map(() => ({ groups: [], nodes: [] }));
    for (const group of this.groups) if (group.parent !== null) this.children[group.parent].groups.push(group.id);
    for (const node of pass.nodes) this.children[node.group].nodes.push(node.id);
    this.into = new Map(pass.nodes.map((node) => [node.id, []]));
    this.outOf = new Map(pass.nodes.map((node) => [node.id, []]));
    this.edges.forEach((edge, place) => {
      this.into.get(edge.to).push(place);
      this.outOf.get(edge.from).push(place);
    });
    this.sums = this.groups.map(() => null);
    this.flagged = new Map(); // node or box -> findings
    for (const [finding, ids] of Object.entries(pass.findings)) {
      for (const id of ids) this.flagged.set(id, [...(this.flagged.get(id) ?? []), Number(finding)]);
    }
    for (let group = this.groups.length - 1; group >= 0; group--) this.sum(group);
  }

  /** The boxes around a node or a box, outermost first, itself left out. */
  around(id) {
    const found = [];
    let group = typeof id === "number" ? this.groups[id].parent : this.nodes.get(id).group;
    while (group !== null) {
      found.unshift(group);
      group = this.groups[group].parent;
    }
    return found;
  }

  /** What is inside a box: numbers of nodes and parameters, troubles, hooks, findings, and what it receives. */
  sum(group) {
    if (this.sums[group]) return this.sums[group];
    const total = { nodes: 0, leaves: 0, saved: 0, states: {}, hooks: new Set(), findings: new Set(), cuts: 0 };
    this.sums[group] = total;
    for (const inner of this.children[group].groups) {
      const part = this.sum(inner);
      total.nodes += part.nodes;
      total.leaves += part.leaves;
      total.saved += part.saved;
      total.cuts += part.cuts;
      for (const [state, count] of Object.entries(part.states))
        total.states[state] = (total.states[state] ?? 0) + count;
      for (const hook of part.hooks) total.hooks.add(hook);
      for (const finding of part.findings) total.findings.add(finding);
    }
    for (const id of this.children[group].nodes) {
      const node = this.nodes.get(id);
      total.nodes += 1;
      total.leaves += node.kind === "leaf" || node.kind === "lost-leaf" ? 1 : 0;
      total.saved += node.saved;
      total.cuts += node.cut ? 1 : 0;
      total.states[node.state] = (total.states[node.state] ?? 0) + 1;
      for (const hook of node.hooks ?? []) total.hooks.add(hook);
      for (const finding of this.flagged.get(id) ?? []) total.findings.add(finding);
    }
    for (const hook of this.groups[group].hooks ?? []) total.hooks.add(hook);
    for (const finding of this.flagged.get(group) ?? []) total.findings.add(finding);
    return total;
  }

  /** The norm of all gradients that come into a box from outside. */
  received(group) {
    const inside = this.inside(group);
    const norms = this.edges.filter((edge) => inside.has(edge.to) && !inside.has(edge.from)).map((edge) => edge.norm);
    const roots = this.pass.roots.filter((id) => inside.has(id)).map((id) => this.nodes.get(id).received);
    return combined([...norms, ...roots]);
  }

  /** All nodes in a box, at any depth. */
  inside(group) {
    const found = new Set();
    const waiting = [group];
    while (waiting.length) {
      const current = waiting.pop();
      for (const id of this.children[current].nodes) found.add(id);
      waiting.push(...this.children[current].groups);
    }
    return found;
  }

  /** The edges on every way from the loss to some nodes; for what a gradient does not reach, the lost way on to its leaf. */
  waysTo(ids) {
    const edges = new Set();
    const seen = new Set(ids);
    const lost = [...ids];
    while (lost.length) {
      for (const place of this.outOf.get(lost.pop())) {
        const { to, state } = this.edges[place];
        if (state !== "lost") continue;
        edges.add(place);
        if (!seen.has(to)) lost.push(to);
        seen.add(to);
      }
    }
    const waiting = [...seen];
    while (waiting.length) {
      for (const place of this.into.get(waiting.pop())) {
        edges.add(place);
        const from = this.edges[place].from;
        if (!seen.has(from)) {
          seen.add(from);
          waiting.push(from);
        }
      }
    }
    return { edges, nodes: seen };
  }

  /** The boxes to open at first: the most important ones, as long as what is shown stays readable. */
  firstOpen(most = 40) {
    const open = new Set([0]);
    const shown = (group) => this.children[group].groups.length + this.children[group].nodes.length;
    let visible = shown(0);
    let level = this.children[0].groups;
    while (level.length) {
      const following = [];
      const all = level.reduce((sum, group) => sum + shown(group) - 1, 0);
      const alone = visible <= 3 && level.every((group) => this.groups[group].kind === "module"); // nothing to see but it
      if (visible + all > most && !alone) break;
      for (const group of level) {
        open.add(group);
        following.push(...this.children[group].groups);
      }
      visible += all;
      level = following;
    }
    return open;
  }
}

export function combined(norms) {
  const known = norms.filter((norm) => norm !== null && norm !== undefined);
  if (!known.length) return null;
  if (known.includes("nan")) return "nan";
  if (known.some((norm) => !isFinite(norm))) return "inf";
  return Math.hypot(...known);
}

export const worst = (states) => WORST.find((state) => states.includes(state)) ?? "ok";
