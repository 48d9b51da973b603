// Just enough of Python's lexical rules to set comments, strings and keywords apart.

import { h } from "./dom.js";

const KEYWORDS = new Set(
  (
    "and as assert async await break class continue def del elif else except finally for from global if import in is " +
    "lambda nonlocal not or pass raise return try while with yield True False None self"
  ).split(" "),
);
const TOKEN = new RegExp(
  [
    /(#.*$)/, // a comment
    /([rbfu]{0,2}(?:"""|'''))/, // a string that may go on over lines
    /([rbfu]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))/,
    /(\d[\w.]*)/,
    /([a-z_]\w*)/,
    /(.)/,
  ]
    .map((pattern) => pattern.source)
    .join("|"),
  "gim",
);

const FITS = 40; // characters up to which a line is hardly ever wrapped

/** Lines of source -> for each line a list of texts and spans. */
export function coloured(lines) {
  let open = null; // the quotes of a string that goes on over lines
  return lines.map((text) => {
    const parts = [];
    let rest = text;
    if (open) {
      const end = rest.indexOf(open);
      if (end < 0) return [h("span", { class: "py-string" }, rest)];
      parts.push(h("span", { class: "py-string" }, rest.slice(0, end + 3)));
      rest = rest.slice(end + 3);
      open = null;
    }
    let at = 0;
    TOKEN.lastIndex = 0;
    for (let match = TOKEN.exec(rest); match && match[0]; match = TOKEN.exec(rest)) {
      const [token, comment, triple, string, digits, word] = match;
      if (match.index > at) parts.push(rest.slice(at, match.index));
      at = match.index + token.length;
      if (comment) parts.push(h("span", { class: "py-comment" }, token));
      else if (triple) {
        const quotes = token.slice(-3);
        const end = rest.indexOf(quotes, at);
        const stop = end < 0 ? rest.length : end + 3;
        parts.push(h("span", { class: "py-string" }, rest.slice(match.index, stop)));
        if (end < 0) open = quotes;
        TOKEN.lastIndex = at = stop;
      } else if (string) parts.push(h("span", { class: "py-string" }, token));
      else if (digits) parts.push(h("span", { class: "py-number" }, token));
      else if (word && KEYWORDS.has(word)) parts.push(h("span", { class: "py-keyword" }, token));
      else if (text.length <= FITS) parts.push(token);
      else if (token === ".")
        parts.push(h("wbr"), token); // where a long line may be wrapped
      else parts.push(token, "([".includes(token) && h("wbr"));
    }
    return parts;
  });
}
