// The findings: what is wrong, on which line, how that is known, what to write instead.

import { h, replace } from "./dom.js";
import { plural } from "./format.js";

/** The numbers of findings and notes: "1 finding, 2 notes". */
function counted(findings) {
  const notes = findings.filter((finding) => finding.kind === "note").length;
  const parts = [
    [findings.length - notes, "finding"],
    [notes, "note"],
  ];
  return parts
    .filter(([count]) => count)
    .map(([count, word]) => plural(count, word))
    .join(", ");
}

export class FindingsView {
  constructor(data, store, actions) {
    this.data = data;
    this.store = store;
    this.actions = actions;
    this.element = h("aside", { class: "findings", "aria-label": "Findings" });
    this.draw();
    store.on(["finding"], () => this.mark());
  }

  draw() {
    const { findings, limits, program } = this.data;
    const head =
      findings.length || program.error
        ? h("h2", {}, findings.length ? counted(findings) : "No finding")
        : !program.healthy
          ? h("div", {}, h("h2", {}, "No finding"), h("p", { class: "unjudged" }, program.verdict))
          : h("div", { class: "healthy" }, h("h2", {}, "✓ Healthy"), h("p", {}, program.verdict));
    const error =
      program.error &&
      h(
        "div",
        { class: "raised" },
        h("b", {}, `It raised ${program.error.type}`),
        h("p", {}, program.error.message.split("\n")[0]),
        program.error.at && this.place(program.error.at),
        !findings.length && h("p", {}, "Nothing that was seen of its gradients and hooks explains that."),
      );
    this.cards = findings.map((finding, place) => this.card(finding, place));
    const notes =
      limits.length > 0 &&
      h(
        "div",
        { class: "limits" },
        h("h3", {}, "Not everything is shown"),
        limits.map((text) => h("p", {}, text)),
      );
    replace(this.element, head, error, this.cards, notes);
  }

  place({ file, line }, text) {
    if (file === null || line === null) return null;
    const label = text ?? `${this.data.files[file].name}:${line}`;
    return h(
      "button",
      {
        class: "place",
        type: "button",
        onclick: (event) => {
          event.stopPropagation();
          this.actions.showLine(file, line);
        },
      },
      label,
    );
  }

  card(finding, place) {
    const { files } = this.data;
    const code = finding.file === null ? null : files[finding.file].lines?.[finding.line - 1];
    const others = finding.subjects.filter((subject) => subject !== finding.subject);
    const choose = () => this.actions.showFinding(place);
    return h(
      "article",
      { class: finding.kind === "note" ? "finding note" : "finding", "data-finding": place },
      h(
        "button",
        { class: "finding-head", type: "button", onclick: choose, "aria-expanded": "false" },
        h("span", { class: "flag" }, `⚑ ${place + 1}`),
        h("span", { class: "code" }, finding.kind === "note" ? `note: ${finding.code}` : finding.code),
        h("span", { class: "subject" }, finding.subject),
      ),
      others.length > 0 &&
        h(
          "p",
          { class: "others" },
          "and so for ",
          others.slice(0, 4).join(", "),
          others.length > 4 && ` and ${others.length - 4} more`,
        ),
      code !== undefined &&
        code !== null &&
        h("pre", { class: "excerpt", onclick: choose }, h("span", { class: "line-number" }, finding.line), code.trim()),
      h("p", { class: "message" }, finding.message),
      h(
        "div",
        { class: "more" },
        finding.evidence.length > 0 && [
          h("h3", {}, "How it is known"),
          h(
            "ol",
            { class: "evidence" },
            finding.evidence.map((fact) =>
              h(
                "li",
                {},
                fact.text,
                " ",
                fact.line !== null && this.place(fact, fact.file === finding.file ? `line ${fact.line}` : undefined),
              ),
            ),
          ),
        ],
        finding.cure && [h("h3", {}, "Write instead"), h("pre", { class: "cure" }, finding.cure)],
        h("p", { class: "meaning" }, `${finding.code}: ${finding.meaning}`),
      ),
    );
  }

  mark() {
    const chosen = this.store.get("finding");
    this.cards.forEach((card, place) => {
      card.classList.toggle("chosen", place === chosen);
      card.querySelector(".finding-head").setAttribute("aria-expanded", String(place === chosen));
    });
    if (chosen !== null) this.cards[chosen].scrollIntoView({ block: "nearest" });
  }
}
