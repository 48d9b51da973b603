// Builds the page into the Python package: one script, one style sheet, the licences of what is in them, and a record of
// the sources that they were built from (tests/why/test_page_html.py compares it).

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "src", "undertow", "why", "page", "built");
const common = { bundle: true, minify: true, write: false, legalComments: "none", absWorkingDir: here };

function files(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? files(join(folder, entry.name)) : [join(folder, entry.name)],
  );
}

const hash = (text) => createHash("sha256").update(text).digest("hex");

/** The packages that the page depends on, by name: those inside bundled dependencies too, which a metafile does not show. */
function packages() {
  const lock = JSON.parse(readFileSync(join(here, "package-lock.json"), "utf8"));
  return Object.entries(lock.packages)
    .filter(([path, about]) => path && !about.dev)
    .map(([path]) => path.replace("node_modules/", ""))
    .sort();
}

function licence(name) {
  const folder = join(here, "node_modules", name);
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const text = readFileSync(join(folder, file), "utf8").trim();
  return `${about.name} ${about.version} (${about.license})\n\n${text}\n`;
}

const script = await build({
  ...common,
  entryPoints: ["src/main.js"],
  format: "iife",
  target: "es2023",
  charset: "utf8",
});
const style = await build({ ...common, entryPoints: ["src/page.css"] });
const built = {
  "page.js": script.outputFiles[0].text.trim() + "\n",
  "page.css": style.outputFiles[0].text.trim() + "\n",
  "THIRD_PARTY.txt":
    "The page of `undertow why --html` contains these libraries.\n\n" +
    packages()
      .map(licence)
      .join(`\n${"-".repeat(80)}\n\n`),
};
const sources = [
  "package.json",
  "package-lock.json",
  "build.mjs",
  ...files(join(here, "src")).map((path) => relative(here, path)),
];
const record = {
  sources: Object.fromEntries(sources.sort().map((path) => [path, hash(readFileSync(join(here, path)))])),
  built: Object.fromEntries(Object.entries(built).map(([name, text]) => [name, hash(text)])),
};
mkdirSync(target, { recursive: true });
for (const [name, text] of Object.entries(built)) writeFileSync(join(target, name), text);
writeFileSync(join(target, "record.json"), JSON.stringify(record, null, 2) + "\n");
for (const [name, text] of Object.entries(built)) console.log(`${name} ${(text.length / 1024).toFixed(0)} KiB`);
