// The hooks: which are registered, and every call with what it changed. Calls that are alike are one row with a count.

import { h, replace } from "./dom.js";
import { change, isFinite, number, plural } from "./format.js";

const AT_A_TIME = 200; // rows

export class HooksView {
  constructor(data, store, actions) {
    this.data = data;
    this.store = store;
    this.actions = actions;
    this.filter = { text: "", kind: "", changed: false, each: false };
    this.shown = AT_A_TIME;
    this.open = new Set(); // folded rows whose calls are shown
    const { registered } = data.hooks;
    this.silent = registered.filter((hook) => hook.user && !hook.fired);
    this.listed = this.silent.length + registered.filter((hook) => hook.fired).length;
    const kinds = [...new Set(registered.map((hook) => hook.kind))].sort();
    this.count = h("span", { class: "facts", "aria-live": "polite" });
    const box = (name, text) =>
      h(
        "label",
        {},
        h("input", { type: "checkbox", onchange: (event) => this.narrow({ [name]: event.target.checked }) }),
        ` ${text}`,
      );
    this.bar = h(
      "div",
      { class: "toolbar" },
      h("input", {
        type: "search",
        placeholder: "Filter by hook, owner, line",
        "aria-label": "Filter hook calls",
        oninput: (event) => this.narrow({ text: event.target.value.toLowerCase() }),
      }),
      kinds.length > 1 &&
        h(
          "select",
          { "aria-label": "Kind of hook", onchange: (event) => this.narrow({ kind: event.target.value }) },
          h("option", { value: "" }, "all kinds"),
          kinds.map((kind) => h("option", { value: kind }, kind)),
        ),
      box("changed", "changes"),
      box("each", "every call"),
      h("span", { class: "spring" }),
      this.count,
    );
    this.body = h("div", { class: "scroll" });
    this.element = h("section", { class: "view hooks-view", id: "hooks" }, this.listed > 0 && this.bar, this.body);
    this.draw();
  }

  narrow(change) {
    Object.assign(this.filter, change);
    this.shown = AT_A_TIME;
    this.draw();
  }

  hook(firing) {
    return this.data.hooks.registered[firing.hook];
  }

  matches(firing) {
    const { text, kind, changed } = this.filter;
    const hook = this.hook(firing);
    if (kind && hook.kind !== kind) return false;
    if (changed && !firing.changed && !firing.error && !firing.refused) return false;
    return (
      !text ||
      `${hook.name} ${hook.on} ${hook.kind} ${this.where(hook.at)} ${pass(firing)}`.toLowerCase().includes(text)
    );
  }

  where(at) {
    return at && at.file !== null ? `${this.data.files[at.file].name}:${at.line}` : "";
  }

  /** What makes two registered hooks the same one to a reader. */
  likeness(hook) {
    return [hook.name, hook.kind, hook.on, this.where(hook.at)].join("\n");
  }

  draw() {
    const { fired, total } = this.data.hooks;
    if (!this.listed) {
      replace(this.body, h("p", { class: "empty" }, "No hook was registered."));
      return;
    }
    const calls = fired.filter((firing) => this.matches(firing));
    replace(
      this.count,
      `${plural(this.listed, "hook")}, ${calls.length === fired.length ? "" : `${calls.length} of `}`,
      plural(fired.length, "call"),
      total > fired.length ? ` (of ${total.toLocaleString("en")})` : "",
    );
    const rows = this.rows(calls);
    const table = h(
      "table",
      { class: "hook-calls" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["calls", "pass", "hook", "on", "norm", "what it did", "line"].map((title) =>
            h("th", { scope: "col" }, title),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        rows.slice(0, this.shown).map(([key, alike]) => this.row(key, alike)),
      ),
    );
    const more =
      rows.length > this.shown &&
      h(
        "button",
        {
          type: "button",
          class: "more-rows",
          onclick: () => {
            this.shown += 5 * AT_A_TIME;
            this.draw();
          },
        },
        `Show more (${rows.length - this.shown} left)`,
      );
    replace(this.body, this.silent.length > 0 && this.neverFired(), fired.length > 0 && table, more);
  }

  /** [name of a folded row, its calls]: calls are alike if hook and outcome are. Single calls have no name. */
  rows(calls) {
    if (this.filter.each) return calls.map((firing) => [null, [firing]]);
    const outcome = (firing) => [firing.pass === null, kindOf(firing), firing.error, firing.refused].join("\n");
    const groups = Map.groupBy(calls, (firing) => `${this.likeness(this.hook(firing))}\n${outcome(firing)}`);
    return [...groups].flatMap(([key, alike]) => {
      if (alike.length === 1) return [[null, alike]];
      return [[key, alike], ...(this.open.has(key) ? alike.map((firing) => [null, [firing], true]) : [])];
    });
  }

  /** Hooks without a call, each once, with the finding that says why. */
  neverFired() {
    const line = ([hook, ...again]) => {
      const finding = this.data.findings.findIndex(
        (one) => hook.at && one.file === hook.at.file && [one.line, ...one.also_lines].includes(hook.at.line),
      );
      return h(
        "li",
        {},
        h("b", {}, hook.name),
        again.length > 0 && ` ×${again.length + 1}`,
        ` (${hook.kind} on ${hook.on || "?"}) `,
        this.place(hook.at),
        " ",
        finding >= 0 &&
          h(
            "button",
            { class: "pin", type: "button", onclick: () => this.actions.showFinding(finding) },
            `⚑ ${finding + 1} ${this.data.findings[finding].code}`,
          ),
      );
    };
    const groups = Map.groupBy(this.silent, (hook) => this.likeness(hook));
    return h(
      "div",
      { class: "silent" },
      h("h3", {}, `${plural(this.silent.length, "hook")} never fired`),
      h("ul", {}, [...groups.values()].map(line)),
    );
  }

  place(at) {
    return (
      at &&
      at.file !== null &&
      h(
        "button",
        {
          class: "place",
          type: "button",
          title: "where it was registered",
          onclick: (event) => {
            event.stopPropagation();
            this.actions.showLine(at.file, at.line);
          },
        },
        at.file === 0 ? `line ${at.line}` : this.where(at),
      )
    );
  }

  row(key, alike) {
    const firing = alike.at(-1);
    const hook = this.hook(firing);
    const hooks = new Set(alike.map((one) => one.hook)).size;
    const kind = kindOf(firing);
    const passes = alike.map(pass);
    const toggle = (event) => {
      event.stopPropagation();
      if (!this.open.delete(key)) this.open.add(key);
      this.draw();
      this.body.querySelector(`[data-row="${CSS.escape(key)}"]`)?.focus();
    };
    const open = this.open.has(key);
    const show = () => this.actions.showHook(hook, firing);
    return h(
      "tr",
      { class: key === null ? kind : `${kind} folded`, onclick: show },
      h(
        "td",
        { class: "number" },
        key === null
          ? `#${firing.order}`
          : h(
              "button",
              { class: "fold", type: "button", "data-row": key, "aria-expanded": String(open), onclick: toggle },
              `${open ? "▾" : "▸"} ×${alike.length}`,
            ),
      ),
      h("td", {}, passes[0] === passes.at(-1) ? passes[0] : `${passes[0]}–${passes.at(-1)}`),
      h(
        "td",
        {},
        h("button", { class: "hook-name", type: "button", onclick: show }, hook.name),
        h("span", { class: "about" }, hooks > 1 ? `${hook.kind} · registered ${hooks} times` : hook.kind),
      ),
      h("td", { class: "mono on" }, breakable(hook.on)),
      h("td", { class: "norms" }, norms(alike, "before"), kind !== "same" && ` → ${norms(alike, "after")}`),
      h(
        "td",
        {},
        h(
          "span",
          { class: `did ${kind}` },
          h("span", { class: "sign", "aria-hidden": "true" }, { bad: "!", same: "=", changed: "≠" }[kind]),
          " ",
          did(alike),
        ),
      ),
      h("td", {}, this.place(hook.at)),
    );
  }
}

/** A dotted name that may go on in the next line after a dot. */
const breakable = (name) => name.split(".").flatMap((part, nth) => (nth ? [".", h("wbr"), part] : [part]));

const pass = (firing) => (firing.pass === null ? "forward" : `${firing.pass + 1}`);

function kindOf(firing) {
  if (firing.error || firing.refused) return "bad";
  if (!firing.changed) return "same";
  return firing.after === 0 || !isFinite(firing.after) ? "bad" : "changed";
}

/** The norms of calls that are alike: one, or the smallest and the largest. */
function norms(alike, when) {
  const known = alike.map((firing) => firing[when]);
  const odd = known.find((norm) => !isFinite(norm));
  if (odd !== undefined) return number(odd);
  return span(known);
}

function span(values) {
  const [low, high] = [number(Math.min(...values)), number(Math.max(...values))];
  return low === high ? low : `${low} … ${high}`;
}

/** What calls that are alike did: in one word, or the range of their factors. */
function did(alike) {
  const [first] = alike;
  if (first.error) return `raised ${first.error}`;
  if (first.refused) return `refused: ${first.refused}`;
  const words = new Set(alike.map((firing) => change(firing.before, firing.after, firing.changed)));
  if (words.size === 1) return [...words][0];
  const factors = alike.map((firing) => firing.after / firing.before);
  return factors.every(Number.isFinite) ? `×${span(factors)}` : "changed";
}
