// The hooks: which are registered, and every call in order with what it changed.

import { h, replace } from "./dom.js";
import { change, ending, isFinite, number, plural } from "./format.js";

const AT_A_TIME = 200; // rows

export class HooksView {
  constructor(data, store, actions) {
    this.data = data;
    this.store = store;
    this.actions = actions;
    this.filter = { text: "", kind: "", changed: false };
    this.shown = AT_A_TIME;
    const kinds = [...new Set(data.hooks.registered.map((hook) => hook.kind))].sort();
    this.count = h("span", { class: "facts", "aria-live": "polite" });
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
      h(
        "label",
        {},
        h("input", { type: "checkbox", onchange: (event) => this.narrow({ changed: event.target.checked }) }),
        " only changes",
      ),
      h("span", { class: "spring" }),
      this.count,
    );
    this.body = h("div", { class: "scroll" });
    this.element = h("section", { class: "view hooks-view", id: "hooks" }, this.bar, this.body);
    this.draw();
  }

  narrow(change) {
    Object.assign(this.filter, change);
    this.shown = AT_A_TIME;
    this.draw();
  }

  matches(firing) {
    const { text, kind, changed } = this.filter;
    const hook = this.data.hooks.registered[firing.hook];
    if (kind && hook.kind !== kind) return false;
    if (changed && !firing.changed && !firing.error && !firing.refused) return false;
    return (
      !text ||
      `${hook.name} ${hook.on} ${hook.kind} ${this.where(hook.at)} ${this.pass(firing)}`.toLowerCase().includes(text)
    );
  }

  where(at) {
    return at && at.file !== null ? `${this.data.files[at.file].name}:${at.line}` : "";
  }

  pass(firing) {
    return firing.pass === null ? "forward" : `backward ${firing.pass + 1}`;
  }

  draw() {
    const { registered, fired, total } = this.data.hooks;
    if (!registered.length) {
      replace(this.body, h("p", { class: "empty" }, "No hook was registered."));
      return;
    }
    const silent = registered.filter((hook) => hook.user && !hook.fired);
    const rows = fired.filter((firing) => this.matches(firing));
    replace(
      this.count,
      rows.length === fired.length ? "" : `${rows.length} of `,
      plural(fired.length, "call"),
      total > fired.length ? ` (of ${total.toLocaleString("en")})` : "",
      `, ${plural(registered.length, "hook")}`,
    );
    const largest = Math.max(...fired.map((firing) => (isFinite(firing.before) ? firing.before : 0)), 1e-30);
    const table = h(
      "table",
      { class: "hook-calls" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["#", "pass", "hook", "kind", "on", "before → after", "what it did", "line"].map((title) =>
            h("th", { scope: "col", colspan: title.startsWith("before") ? 2 : null }, title),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        rows.slice(0, this.shown).map((firing, nth) => this.row(firing, rows[nth - 1], largest)),
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
    replace(this.body, silent.length > 0 && this.silent(silent), fired.length > 0 && table, more);
  }

  silent(hooks) {
    const line = (hook) => {
      const finding = this.data.findings.findIndex(
        (one) => hook.at && one.file === hook.at.file && [one.line, ...one.also_lines].includes(hook.at.line),
      );
      return h(
        "li",
        {},
        h("b", {}, hook.name),
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
    return h(
      "div",
      { class: "silent" },
      h("h3", {}, `${plural(hooks.length, "hook")} never fired`),
      h("ul", {}, hooks.map(line)),
    );
  }

  place(at, text) {
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
        text ?? (at.file === 0 ? `line ${at.line}` : this.where(at)),
      )
    );
  }

  row(firing, before, largest) {
    const hook = this.data.hooks.registered[firing.hook];
    const did = firing.error
      ? `raised ${firing.error}`
      : firing.refused
        ? `refused: ${firing.refused}`
        : change(firing.before, firing.after, firing.changed);
    const kind =
      firing.error || firing.refused
        ? "bad"
        : !firing.changed
          ? "same"
          : firing.after === 0 || !isFinite(firing.after)
            ? "bad"
            : "changed";
    const sign = { bad: "!", same: "=", changed: "≠" }[kind];
    const starts = !before || before.pass !== firing.pass;
    return h(
      "tr",
      { class: `${kind}${starts ? " starts" : ""}`, onclick: () => this.actions.showHook(hook, firing) },
      h("td", { class: "number" }, firing.order),
      h(
        "td",
        { class: starts ? null : "ditto", title: this.pass(firing) },
        firing.pass === null ? "forward" : firing.pass + 1,
      ),
      h("td", { class: "mono" }, hook.name),
      h("td", {}, hook.kind),
      h("td", { class: "mono", title: hook.on }, ending(hook.on, 24)),
      h("td", { class: "number" }, `${number(firing.before)} → ${number(firing.after)}`),
      h("td", { class: "balance" }, balance(firing, largest)),
      h(
        "td",
        {},
        h("span", { class: `did ${kind}` }, h("span", { class: "sign", "aria-hidden": "true" }, sign), " ", did),
      ),
      h("td", {}, this.place(hook.at, hook.at?.file === 0 ? hook.at.line : undefined)),
    );
  }
}

/** Two bars, before above after, on one log scale. */
function balance(firing, largest) {
  const wide = (norm) => (isFinite(norm) && norm > 0 ? Math.max(2, 36 + 7 * Math.log10(norm / largest)) : 0);
  return h(
    "span",
    { class: "bars", "aria-hidden": "true" },
    h("i", { style: `width:${wide(firing.before)}px` }),
    h("i", { class: firing.changed ? "new" : "", style: `width:${wide(firing.after)}px` }),
  );
}
