// The console's routes from its source and documentation: the tests must leave none out.
import { readFileSync } from "node:fs";

const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

/** Method and path of every route, the path as a regular expression. */
export function routes() {
  const text = read("cli/console/src/lib.rs");
  const nested = text.indexOf("fn of_subscription");
  const found = [];
  for (const match of text.matchAll(/\.route\(\s*"([^"]+)",([^]*?)(?=\n {8}\.|\n\})/g)) {
    const [, path, handlers] = match;
    const whole = (match.index > nested ? "/topics/{topic}/subscriptions/{name}" : "") + path;
    const pattern = whole.replace(/(.)\/$/, "$1").replace(/\{\w+\}/g, "[^/]+");
    for (const method of ["get", "post"]) {
      if (new RegExp(`\\b${method}\\(`).test(handlers)) found.push([method.toUpperCase(), pattern]);
    }
  }
  return found;
}

/** The first cells of the table below a heading of docs/console.md. */
export function rows(heading) {
  const part = read("docs/console.md").split(`\n${heading}\n`)[1].split(/\n##/)[0];
  const lines = part.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("|---"));
  return lines.slice(1).map((line) => line.split("|")[1].replace(/^[\s↳]+/, "").trim());
}
