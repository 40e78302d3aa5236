// The two third-party packages. They are outside the tree, where `run` has installed them.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const folder = process.env.GRIDPOST_BROWSER_PACKAGES;
if (!folder) throw new Error("GRIDPOST_BROWSER_PACKAGES is not set: start the tests by tests/browser/run");
const require = createRequire(join(folder, "package.json"));

export const { chromium } = require("playwright-core");

/** axe as the text of a script. */
export const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
