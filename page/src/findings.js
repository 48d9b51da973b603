// The findings: what is wrong, on which line, how that is known, what to write instead. One is open at a time.

import { h, replace } from "./dom.js";
import { plural } from "./format.js";
import { coloured } from "./python.js";

const NOTES = "Probably a mistake, but it may be meant so. Notes leave the exit status at 0.";

export class FindingsView {
  constructor(data, store, actions) {
    this.data = data;
    this.store = store;
    this.actions = actions;
    this.element = h("aside", { class: "findings", "aria-label": "Findings", onkeydown: (event) => this.key(event) });
    this.draw();
    store.on(["finding"], () => this.mark());
  }

  draw() {
    const { findings, limits } = this.data;
    const isNote = (place) => findings[place].kind === "note";
    this.cards = findings.map((finding, place) => this.card(finding, place));
    const notes = this.cards.filter((_, place) => isNote(place));
    replace(
      this.element,
      this.head(findings.length - notes.length),
      this.error(),
      this.cards.filter((_, place) => !isNote(place)),
      notes.length > 0 && [
        h("h2", { class: "notes" }, plural(notes.length, "note")),
        h("p", { class: "about" }, NOTES),
        notes,
      ],
      limits.length > 0 &&
        h(
          "div",
          { class: "limits" },
          h("h3", {}, "Not everything is shown"),
          limits.map((text) => h("p", {}, text)),
        ),
    );
  }

  head(count) {
    const { error, healthy, judged, verdict } = this.data.program;
    if (count) return h("h2", {}, plural(count, "finding"));
    if (healthy) return h("div", { class: "healthy" }, h("h2", {}, "✓ Healthy"), h("p", {}, verdict));
    if (error || (judged && this.cards.length)) return h("h2", {}, "No finding");
    const [what, why] = verdict.split(/: (.*)/s); // "Nothing was judged: the program ran no backward pass."
    return h("div", { class: "unjudged" }, h("h2", {}, what), why && h("p", {}, why[0].toUpperCase() + why.slice(1)));
  }

  error() {
    const { error } = this.data.program;
    return (
      error &&
      h(
        "div",
        { class: "raised" },
        h("b", {}, `It raised ${error.type}`),
        h("p", {}, error.message.split("\n")[0]),
        error.at && this.place(error.at),
        !this.cards.length && h("p", {}, "Nothing that was seen of its gradients and hooks explains that."),
      )
    );
  }

  place({ file, line }, text) {
    if (file === null || line === null) return null;
    const label = text ?? `${this.data.files[file].name}:${line}`;
    return h("button", { class: "place", type: "button", onclick: () => this.actions.showLine(file, line) }, label);
  }

  card(finding, place) {
    const { files } = this.data;
    const code = finding.file === null ? null : files[finding.file].lines?.[finding.line - 1];
    const others = finding.subjects.filter((subject) => subject !== finding.subject);
    const choose = () => this.actions.showFinding(this.store.get("finding") === place ? null : place);
    const where =
      finding.line === null ? "" : `${finding.file === 0 ? "line " : files[finding.file].name + ":"}${finding.line}`;
    return h(
      "article",
      { class: finding.kind === "note" ? "finding note" : "finding", "data-finding": place },
      h(
        "button",
        { class: "finding-head", type: "button", onclick: choose, "aria-expanded": "false" },
        h("span", { class: "flag" }, `⚑ ${place + 1}`),
        h("span", { class: "code" }, finding.code),
        h("span", { class: "where" }, where),
        h("span", { class: "subject" }, finding.subject),
      ),
      h("p", { class: "message" }, finding.message),
      h(
        "div",
        { class: "more" },
        others.length > 0 && this.others(others),
        code !== undefined &&
          code !== null && [
            h("h3", {}, this.place(finding)),
            h("pre", { class: "excerpt" }, coloured([code.trim()])[0]),
          ],
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

  /** The other subjects: a few of them, and all on demand. */
  others(subjects) {
    const [few, rest] = [subjects.slice(0, 3), subjects.slice(3)];
    const text = `and so for ${few.join(", ")}`;
    if (!rest.length) return h("p", { class: "others" }, text);
    return h(
      "details",
      { class: "others" },
      h("summary", {}, `${text} and ${rest.length} more`),
      h("p", {}, rest.join(", ")),
    );
  }

  /** Up and down from one finding's head to the next. */
  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.matches(".finding-head")) return;
    const heads = [...this.element.querySelectorAll(".finding-head")];
    heads[heads.indexOf(event.target) + step]?.focus();
    event.preventDefault();
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
