// `gridpost console` in Chromium, against `gridpost dev`: started by tests/browser/run.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { actions, park } from "./actions.mjs";
import { attacks } from "./attacks.mjs";
import { Session, launch } from "./browser.mjs";
import { outage, stage } from "./outage.mjs";
import { pages } from "./pages.mjs";
import { routes } from "./routes.mjs";
import { World } from "./world.mjs";

/** Shared by all tests: a deployment with a fast clock, its console, Chromium. */
const ground = {};

before(async () => {
  ground.world = await World.open();
  ground.console = await ground.world.console();
  ground.browser = await launch();
  await park(ground.world);
  ground.staged = stage();
  // The test that waits for it reports its failure.
  ground.staged.catch(() => null);
});

after(async () => {
  await ground.browser?.close();
  await ground.world?.close();
  await (await ground.staged?.catch(() => null))?.close();
});

describe("pages", () => pages(ground));
describe("actions", () => actions(ground));
describe("attacks", () => attacks(ground));
describe("an outage", () => outage(ground));

// The last one, after all others have visited their pages.
test("no route of the console was left out", () => {
  const done = [...Session.done];
  const left = routes().filter(([method, path]) => !done.some((one) => new RegExp(`^${method} ${path}$`).test(one)));
  assert.deepEqual(left, []);
  assert.ok(routes().length > 30, `${routes().length} routes`);
});
