// `gridpost console` in Chromium, against `gridpost dev`: started by tests/browser/run.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { actions, park } from "./actions.mjs";
import { attacks } from "./attacks.mjs";
import { Session, launch } from "./browser.mjs";
import { Estate } from "./estate.mjs";
import { outage, stage } from "./outage.mjs";
import { pages } from "./pages.mjs";
import { pictures } from "./pictures.mjs";
import { routes } from "./routes.mjs";
import { shell } from "./shell.mjs";
import { World } from "./world.mjs";

/** Shared by all tests: a deployment with a fast clock, its console, Chromium. */
const ground = {};

before(async () => {
  ground.world = await World.open();
  ground.console = await ground.world.console();
  ground.browser = await launch();
  await park(ground.world);
  ground.staged = stage();
  ground.estate = Estate.open();
  // The test that waits for it reports its failure.
  for (const one of [ground.staged, ground.estate]) one.catch(() => null);
});

after(async () => {
  await ground.browser?.close();
  await ground.world?.close();
  for (const one of [ground.staged, ground.estate]) await (await one?.catch(() => null))?.close();
});

describe("pages", () => pages(ground));
// Its probation lasts five minutes.
describe("an outage", () => outage(ground));
describe("the shell", () => shell(ground));
describe("actions", () => actions(ground));
describe("attacks", () => attacks(ground));

/** Where GRIDPOST_SCREENSHOTS=1 puts the pictures of every page. */
const PICTURES = process.env.GRIDPOST_PICTURES ?? new URL("../../.gridpost/pictures", import.meta.url).pathname;

test("every page of a deployment with hours of history can be read", async () => {
  const folder = process.env.GRIDPOST_SCREENSHOTS === "1" ? PICTURES : null;
  assert.deepEqual(await pictures(ground.browser, (await ground.estate).world, folder), []);
});

// The last one, after all others have visited their pages.
test("no route of the console was left out", () => {
  const done = [...Session.done];
  const left = routes().filter(([method, path]) => !done.some((one) => new RegExp(`^${method} ${path}$`).test(one)));
  assert.deepEqual(left, []);
  assert.ok(routes().length > 30, `${routes().length} routes`);
});
