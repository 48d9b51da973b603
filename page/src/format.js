// Numbers, sizes and names as the page writes them.

const SPECIAL = { nan: "NaN", inf: "∞", "-inf": "−∞" };

/** A norm or a loss: three digits, exponents where they help. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return SPECIAL[value] ?? value;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e4 || size < 1e-2) {
    const [digits, exponent] = value.toExponential(1).split("e");
    return `${digits.replace(/\.0$/, "")}e${exponent.replace("+", "")}`;
  }
  return String(Number(value.toPrecision(3)));
}

export const isFinite = (value) => typeof value === "number";

export function bytes(count) {
  let size = count;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024 || unit === "GiB") return unit === "B" ? `${count} B` : `${size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return "";
}

export const plural = (count, word, many = `${word}s`) => `${count.toLocaleString("en")} ${count === 1 ? word : many}`;
export const shape = (sizes) =>
  sizes === null || sizes === undefined ? "" : sizes.length ? sizes.join("×") : "scalar";

/** MulBackward0 -> Mul; what a backward node undoes. */
export const short = (name) => name.replace(/Backward\d*$/, "");

/** A text of at most so many characters: the end is what tells names apart, so the middle goes. */
export function clip(text, most) {
  if (text.length <= most) return text;
  const tail = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, most - 1 - tail)}…${text.slice(-tail)}`;
}

/** The end of a text. */
export const ending = (text, most) => (text.length <= most ? text : `…${text.slice(1 - most)}`);

/** How a hook changed a gradient, in words: "×0.5", "→ 0", "unchanged". */
export function change(before, after, changed) {
  if (!changed) return "unchanged";
  if (after === 0) return "→ 0";
  if (!isFinite(after)) return `→ ${number(after)}`;
  if (!isFinite(before) || before === 0) return `→ ${number(after)}`;
  const ratio = after / before;
  return Math.abs(ratio - 1) < 5e-4 ? "same norm" : `×${number(ratio)}`;
}

/** Where a finite norm lies between the smallest and the largest, on a log scale: 0 … 1. */
export function logScale(values) {
  const logs = values.filter((value) => isFinite(value) && value > 0).map(Math.log10);
  let low = Math.min(...logs),
    high = Math.max(...logs);
  if (!logs.length) [low, high] = [-3, 0];
  low = Math.floor(low);
  high = Math.ceil(high);
  if (high - low < 2) [low, high] = [low - 1, low + 1];
  const scale = (value) => Math.min(1, Math.max(0, (Math.log10(value) - low) / (high - low)));
  return Object.assign(scale, { low, high });
}
