// An outage with four causes at once, from the first page to the last redriven event: docs/console.md describes it with the
// pictures that are made here.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Session, picture } from "./browser.mjs";
import { LETTERS, World, event, until } from "./world.mjs";

/** The most clicks from the first page to the last redriven event. */
const CLICKS_MAX = 10;

const BILLING = "/topics/orders/eventSubscriptions/billing";

/** The endpoints' behaviour: each owner repairs an endpoint while the console is in use. */
const staged = { key: "old", knowsV2: false, mailTakesMs: 0 };

function billing(headers, events) {
  if (headers["x-api-key"] !== staged.key) return { status: 401, text: "this key is not valid" };
  const isUnknown = events.some((one) => one.eventType === "Order.PlacedV2") && !staged.knowsV2;
  return isUnknown ? { status: 400, text: "unknown type Order.PlacedV2" } : { status: 200 };
}

async function mail() {
  await new Promise((done) => setTimeout(done, staged.mailTakesMs));
  return { status: 200 };
}

/** A deployment in which all was well. Dead letters take their time, so it starts before the tests. */
export async function stage() {
  const world = await healthy();
  await fail(world);
  return world;
}

async function healthy() {
  const world = await World.open({ speed: 1 });
  world.endpoints.answers.set("/billing", billing).set("/mail", mail);
  const secret = { name: "x-api-key", type: "Static", properties: { value: "old", isSecret: true } };
  await world.topic("orders", {
    billing: {
      destination: world.destination("/billing", { deliveryAttributeMappings: [secret] }),
      filter: { includedEventTypes: ["Order.Placed", "Order.PlacedV2"] },
      ...LETTERS,
    },
    mail: { path: "/mail" },
  });
  return world;
}

/** The outage: a refused event, a secret that only the endpoint has replaced, a filter without a type. */
async function fail(world) {
  const place = async (id, eventType = "Order.Placed") => await world.publish("orders", { id, eventType });
  await place("o-0", "Order.PlacedV2");
  await until("the refusal", () => world.endpoints.received.some((one) => one.status === 400));
  staged.key = "new";
  for (const id of ["o-1", "o-2", "o-3"]) await place(id);
  await place("o-4", "Order.Paid");
  await until("four dead letters that a redrive takes", async () => {
    const { value } = await world.manage("GET", `${BILLING}/deadLetters`);
    // A redrive leaves the letters of the last two seconds to the next one.
    return value.length === 4 && value.every((one) => Date.now() - Date.parse(one.writtenTime) > 3_000);
  });
}

/** And a slow endpoint. Its mark does not last without events. */
async function slow(world) {
  staged.mailTakesMs = 900;
  await until("slowness", async () => {
    await world.publish("orders", { id: "o-5", eventType: "Order.Shipped" });
    return (await world.manage("GET", "/topics/orders/eventSubscriptions/mail/health")).slow;
  });
}

export function outage(ground) {
  test(`an outage is found, understood, mended and redriven with ${CLICKS_MAX} clicks`, async (context) => {
    const world = await ground.staged;
    const session = await Session.open(ground.browser, await world.console(), { viewport: { width: 960, height: 560 } });
    await slow(world);
    await fromFirstToLast(session);
    assert.ok(session.clicks <= CLICKS_MAX, `${session.clicks} clicks`);
    context.diagnostic(`${session.clicks} clicks`);
    await world.publish("orders", { id: "o-6", eventType: "Order.Paid" });
    const taken = (id) => world.endpoints.received.some((one) =>
      one.path === "/billing" && one.status === 200 && one.events.some((found) => found.id === id));
    for (const id of ["o-0", "o-1", "o-2", "o-3", "o-6"]) await until(id, () => taken(id));
    // Fast answers remove the mark for slowness.
    let shown = "";
    await until(() => `health, but\n${shown}`, async () => {
      for (let one = 0; one < 20; one += 1) await world.publish("orders", { id: "o-7", eventType: "Order.Shipped" });
      await session.go("/");
      shown = await session.text();
      return !/Slow|held back|end at once/.test(shown);
    });
    await session.close();
  });
}

async function fromFirstToLast(session) {
  const { page } = session;
  // Found: the first page says which endpoints are in trouble, and why.
  await session.go("/");
  await session.says("401 Unauthorized");
  await session.says("answers slowly");
  await picture(page, "1-overview");
  // The slow endpoint loses nothing: its owner repairs it.
  staged.mailTakesMs = 0;
  await session.click("billing", "link");
  await session.says("end at once");
  await picture(page, "2-endpoint");

  // Understood: paid orders do not come, because the filter does not name them.
  await session.click("Filter", "link");
  const paid = event({ id: "o-4", eventType: "Order.Paid", subject: "orders/4", data: { total: 12.5 } });
  await session.field(/^Sample event/).fill(JSON.stringify(paid, null, 2));
  await session.click("Test filter");
  await session.says("filter.includedEventTypes");
  await picture(page, "3-filter");

  // Fixed: the new key and the missing type, saved together.
  await session.click("Edit the saved filter", "link");
  const types = session.field("Event types, one in a line");
  await types.fill(`${await types.inputValue()}\nOrder.Paid`);
  await session.field("Value, where static").fill(staged.key);
  await session.click("Save");
  await session.says("Saved.");
  await session.click("Mark as fixed");
  await session.says("waits are ended");

  // Understood: by reason, one event was refused; of a type that its owner teaches the endpoint.
  await session.click("Dead letters", "link");
  await session.says("UndeliverableDueToHttpBadRequest: 1");
  await session.says("Order.PlacedV2");
  await picture(page, "4-dead-letters");
  staged.knowsV2 = true;

  // Redriven.
  await session.click("Redrive…", "link");
  await session.click("Count them (dry run)");
  await page.getByText("4 events would be sent").waitFor();
  await picture(page, "5-dry-run");
  await session.click("Send these 4 events");
  await page.getByText("4 of 4 events sent").waitFor();
  await picture(page, "6-redriven");
}
