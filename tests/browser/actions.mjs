// Every action, by its button.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Session, accessible } from "./browser.mjs";
import { LETTERS, World, event, until } from "./world.mjs";

/** Other tests compare light and dark, page by page; these check the effect of an action. */
const ONE_LOOK = [{ colorScheme: "dark", width: 320 }];

/** Puts messages into the poison queue: without bugs in Gridpost, none gets there by itself. */
const POISON = `
import json, sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database:
    for at, body in enumerate(json.loads(sys.argv[2])):
        database.execute("INSERT INTO messages VALUES (?, 4, 1, 1, 0, 'dispatch', '', ?)", (at + 1, body))
`;

/** A delivery that will be parked: that takes a quarter of an hour by the clock, so it starts before the tests. */
export async function park(world) {
  const retryPolicy = { eventTimeToLiveInMinutes: 1000, schedule: [3000, 50000] };
  await world.topic("parked", { one: { status: 500, retryPolicy } });
  await world.publish("parked", { id: "parked-1" }, { id: "parked-2" });
}

export function actions(ground) {
  const at = (topic, name, below = "") => `/topics/${topic}/subscriptions/${name}${below}`;

  /** A test with its own window, in which nothing may go wrong. */
  const act = (name, does) => test(name, async () => {
    const session = await Session.open(ground.browser, ground.console);
    await does(session, session.page, ground.world);
    await session.close();
  });

  act("keys are shown when asked for, and replaced", async (session, page, world) => {
    await world.topic("keys");
    await session.go("/topics/keys");
    const shown = async () => (await page.locator("dt:text-is('key1') + dd").innerText()).trim();
    const { key1: before } = await world.manage("POST", "/topics/keys/listKeys", {});
    assert.match(await shown(), /^•+$/);
    await session.click("Show");
    assert.equal(await shown(), before);
    await page.getByText("Rotate key1").first().click();
    // A browser requires the tick before it sends anything.
    await page.getByRole("button", { name: "Rotate key1" }).click();
    assert.ok(await page.locator("input:invalid").first().isVisible());
    await session.field(/Publishers that use key1/).check();
    await session.click("Rotate key1");
    assert.notEqual(await shown(), before);
    assert.ok(!page.url().includes(await shown()), "a key is in an address");
    await accessible(page, ONE_LOOK);
  });

  act("an event is checked, published and found", async (session, page, world) => {
    await world.topic("shop", { all: {}, some: { filter: { includedEventTypes: ["Other"] } } });
    await session.go("/topics/shop/publish?as=json");
    await session.field("Event").fill(JSON.stringify(event({ id: "shop-1" })));
    await session.click("Who would get it?");
    await session.says("filter.includedEventTypes");
    await accessible(page, ONE_LOOK);
    await session.field("Event").fill("{");
    await session.click("Publish");
    await session.says("That is not JSON");
    await accessible(page, ONE_LOOK);
    await session.field("Event").fill(JSON.stringify(event({ id: "shop-1" })));
    await session.click("Publish");
    await session.says("Accepted");
    await until("the delivery", () => world.endpoints.taken("shop-1"));
    await session.click("What becomes of it", "link");
    await session.shows(page.url(), "Delivered");
    await page.getByText("Who did not want it, and why").click();
    await session.field("The event as it was published").fill(JSON.stringify(event({ id: "shop-1" })));
    await session.click("Ask every filter");
    await session.says("includedEventTypes");
    await accessible(page, ONE_LOOK);
  });

  act("a document is edited; each problem stands below its line", async (session, page, world) => {
    await world.topic("edited", { one: {} });
    await session.go(at("edited", "one", "/edit/json"));
    const field = page.getByRole("textbox", { name: "Document" });
    const change = async (does) => {
      const document = JSON.parse(await field.inputValue());
      does(document.properties);
      await field.fill(JSON.stringify(document, null, 2));
      return await session.click("Save");
    };
    assert.equal(await change((it) => { it.retryPolicy.maxDeliveryAttempts = 77; }), 400);
    await session.says(/"maxDeliveryAttempts": 77\n.*30/);
    await accessible(page, ONE_LOOK);
    assert.equal(await change((it) => { it.retryPolicy.maxDeliveryAttempts = 7; it.labels = ["watched"]; }), 200);
    await session.says("Saved.");
    for (const setting of ["7 attempts, 24 h", "all events", "Labels: watched"]) await session.says(setting);
    const saved = await world.manage("GET", "/topics/edited/eventSubscriptions/one");
    assert.deepEqual([saved.properties.retryPolicy.maxDeliveryAttempts, saved.properties.labels], [7, ["watched"]]);
    await session.go(at("edited", "one", "/edit/json"));
    const other = { properties: { labels: ["other"] } };
    await world.manage("PATCH", "/topics/edited/eventSubscriptions/one", other);
    assert.equal(await change((it) => { it.labels = ["mine"]; }), 412);
    await session.says("changed meanwhile");
    await field.fill("{");
    assert.equal(await session.click("Save"), 400);
    await session.says("That is not JSON");
    await session.go(at("edited", "one", "/edit/json"));
    await session.click("Save");
    await session.says("Nothing was changed");
  });

  act("an event subscription is paused and resumed", async (session, page, world) => {
    await world.topic("held", { one: {} });
    await session.go(at("held", "one"));
    await page.getByRole("button", { name: "Pause…" }).click();
    await session.click("Pause, time-to-live runs");
    await session.says("It is paused");
    const held = await world.manage("GET", "/topics/held/eventSubscriptions/one");
    assert.equal(held.properties.pause.timeToLiveRuns, true);
    await accessible(page, ONE_LOOK);
    await session.go("/");
    await session.says("held, paused");
    await session.click("Resume: held/one");
    await page.getByRole("button", { name: "Pause…" }).waitFor();
    const resumed = await world.manage("GET", "/topics/held/eventSubscriptions/one");
    assert.equal(resumed.properties.pause, undefined);
  });

  act("an event is typed in fields, and checked as it is typed", async (session, page, world) => {
    await world.topic("fields", { all: {} });
    await session.go("/topics/fields/publish");
    const time = session.field("Event time");
    const good = await time.inputValue();
    await time.fill("soon");
    await page.getByText("eventTime must be a date-time").first().waitFor();
    assert.equal(await time.getAttribute("aria-invalid"), "true");
    assert.ok(await time.evaluate((it) => it === document.activeElement), "it has kept the focus");
    await accessible(page, ONE_LOOK);
    await time.fill(good);
    await page.getByText("The topic takes this event.").waitFor();
    assert.equal(await time.getAttribute("aria-invalid"), null);
    await session.field("Id", { exact: true }).fill("fields-1");
    await session.click("Publish");
    await session.says("Accepted");
    await until("the delivery", () => world.endpoints.taken("fields-1"));
  });

  act("an event subscription is edited by a form; each problem stands at its field", async (session, page, world) => {
    await world.topic("formed", { one: { filter: { includedEventTypes: ["Sample"] } } });
    await session.go(at("formed", "one", "/edit"));
    await session.click("Add: filter");
    const key = session.field("Key");
    assert.ok(await key.evaluate((it) => it === document.activeElement), "the new row has the focus");
    await key.fill("data.country");
    await session.field("Values, one in a line").fill("SE\nNO");
    await session.field("Own schedule").fill("9, 5");
    assert.equal(await session.click("Save"), 400);
    const schedule = session.field("Own schedule");
    assert.deepEqual([await schedule.inputValue(), await schedule.getAttribute("aria-invalid")], ["9, 5", "true"]);
    await accessible(page, ONE_LOOK);
    await schedule.fill("5, 9");
    await world.manage("PATCH", "/topics/formed/eventSubscriptions/one", { properties: { labels: ["theirs"] } });
    assert.equal(await session.click("Save"), 412);
    await session.says("it was changed meanwhile");
    await accessible(page, ONE_LOOK);
    await session.click("Save");
    await session.says("Saved.");
    const { properties } = await world.manage("GET", "/topics/formed/eventSubscriptions/one");
    assert.deepEqual(properties.filter.advancedFilters[0].values, ["SE", "NO"]);
    assert.deepEqual([properties.labels, properties.retryPolicy.schedule], [["theirs"], [5, 9]]);
    assert.deepEqual(properties.filter.includedEventTypes, ["Sample"]);
  });

  act("a topic is made, subscribed to, changed and deleted", async (session, page, world) => {
    await session.go("/topics");
    await session.click("Create topic", "link");
    await session.field("Name", { exact: true }).fill("m");
    assert.equal(await session.click("Create topic"), 400);
    await accessible(page, ONE_LOOK);
    await session.field("Name", { exact: true }).fill("made");
    await session.click("Create topic");
    await session.says("It is made.");
    await session.click("New event subscription", "link");
    await session.field("Name", { exact: true }).fill("one");
    await session.field("Endpoint's URL").fill("http://127.0.0.1:1/none");
    assert.equal(await session.click("Create event subscription"), 400);
    assert.equal(await session.field("Endpoint's URL").getAttribute("aria-invalid"), "true");
    await accessible(page, ONE_LOOK);
    await session.field("Endpoint's URL").fill(world.endpoints.url("/made/one"));
    await session.click("Create event subscription");
    await session.says("It is made.");
    await session.go("/topics/made/subscribe");
    await session.field("Name", { exact: true }).fill("one");
    await session.field("Endpoint's URL").fill(world.endpoints.url("/made/one"));
    assert.equal(await session.click("Create event subscription"), 412);
    await session.says("one is there already");
    await session.field("Type", { exact: true }).selectOption("SqsQueue");
    await session.click("Show fields of this type");
    assert.equal(await session.field("Endpoint's URL").count(), 0);
    await session.field("Message group", { exact: true }).waitFor();
    await accessible(page, ONE_LOOK);
    await session.go("/topics/made/edit");
    await session.field("Delivery profile").selectOption("basic2021");
    await session.click("Save");
    await session.says("Saved.");
    const goes = [[at("made", "one", "/delete"), "made/one", "it keeps none."],
      ["/topics/made/delete", "made", "It has no event subscription."]];
    for (const [path, name, told] of goes) {
      await session.go(path);
      await session.says(told);
      await session.field(/^Type/).fill("other");
      assert.equal(await session.click("Delete"), 400);
      await session.go(path);
      await session.field(/^Type/).fill(name);
      await session.click("Delete");
      await session.says("It is deleted.");
    }
  });

  act("the picture of a retry policy follows what is typed, and the policy is saved", async (session, page, world) => {
    await world.topic("policy", { one: {} });
    await session.go(at("policy", "one", "/retry"));
    const circles = page.locator("#timeline svg circle");
    const before = await circles.count();
    await session.field("Attempts at most").fill("3");
    await until("three attempts", async () => (await circles.count()) === 3);
    assert.ok(before > 3 && !page.url().includes("csrf"));
    await session.field("Own schedule").fill("5, 60");
    await session.field("The endpoint answers").fill("500,200");
    await page.locator("#timeline").getByText("Delivered").waitFor();
    await session.click("Show");
    assert.ok(page.url().endsWith("/retry/preview"), page.url());
    await session.click("Save");
    await session.says("Saved.");
    const { properties } = await world.manage("GET", "/topics/policy/eventSubscriptions/one");
    assert.deepEqual([properties.retryPolicy.maxDeliveryAttempts, properties.retryPolicy.schedule], [3, [5, 60]]);
    await session.go(at("policy", "one", "/retry"));
    // What another one has changed meanwhile is kept, and so is what was typed.
    const other = { properties: { retryPolicy: { ...properties.retryPolicy, eventTimeToLiveInMinutes: 90 } } };
    await world.manage("PATCH", "/topics/policy/eventSubscriptions/one", other);
    await session.field("Attempts at most").fill("7");
    assert.equal(await session.click("Save"), 412);
    await session.says("eventTimeToLiveInMinutes");
    const fields = await page.locator("input[name^='retryPolicy.']").evaluateAll((all) => all.map((it) => it.value));
    assert.deepEqual(fields, ["7", "90", "5, 60"]);
    await session.click("Save");
    await session.says("Saved.");
    await session.go(at("policy", "one", "/retry"));
    await session.click("Save");
    await session.says("Nothing was changed");
    await session.go(at("policy", "one", "/retry"));
    await session.field("Attempts at most").fill("99");
    await page.locator("#timeline [role=alert]").waitFor();
    assert.equal(await session.click("Save"), 400);
    await session.says("Nothing was saved.");
    await accessible(page, ONE_LOOK);
  });

  act("a filter is tried, and an event sent to one endpoint", async (session, page, world) => {
    await world.topic("tried", { one: { path: "/tried", filter: { includedEventTypes: ["Paid"] } } });
    await session.go(at("tried", "one", "/filter"));
    await session.click("Test filter");
    await session.says("includedEventTypes");
    await session.field(/^Filter/).fill('{"includedEventTypes": ["Sample"]}');
    await session.field(/^Sample event/).fill(JSON.stringify([event({ id: "tried-1" }), event({ eventType: "No" })]));
    await session.click("Test filter");
    assert.deepEqual(await page.locator("td span").allInnerTexts(), ["yes", "no"]);
    await accessible(page, ONE_LOOK);
    await session.go(at("tried", "one", "/test-event"));
    await session.click("Send test event");
    await session.says("Delivered");
    await session.says("The filter would refuse it");
    world.endpoints.answers.set("/tried", () => ({ status: 422, text: "no such customer" }));
    await session.click("Send test event");
    await session.says("no such customer");
    await accessible(page, ONE_LOOK);
  });

  act("signing secrets are shown when asked for, and renewed", async (session, page, world) => {
    await world.topic("signed", { one: { signing: { scheme: "StandardWebhooks" } } });
    await session.go(at("signed", "one"));
    assert.ok(!(await session.text()).includes("whsec_"));
    await session.click("Show");
    const secret = async () => await page.locator("dd code").first().innerText();
    const before = await secret();
    assert.match(before, /^whsec_/);
    await page.getByText("Rotate secret").first().click();
    await session.field(/Requests carry signatures by both/).check();
    await session.click("Rotate secret");
    assert.ok((await secret()).startsWith("whsec_") && (await secret()) !== before);
    await accessible(page, ONE_LOOK);
  });

  act("a failing delivery is looked at and attempted now, and its endpoint's waits are ended", async (session, page, world) => {
    const retryPolicy = { schedule: [120] };
    await world.topic("late", { one: { path: "/late", status: 503, retryPolicy } });
    await world.publish("late", { id: "late-1" });
    await session.shows(at("late", "one", "/deliveries"), "503");
    await session.click(/^[0-9a-f-]{36}$/, "link");
    await session.says("Next attempt");
    await page.getByRole("button", { name: "Attempt now" }).waitFor();
    // The page of the event offers it, too.
    world.endpoints.answers.set("/late", 200);
    await session.go("/events?topic=late&id=late-1");
    await session.click("Attempt now");
    await session.says("Asked for");
    await accessible(page, ONE_LOOK);
    await until("the delivery", () => world.endpoints.taken("late-1"));
    await world.topic("ended", { one: { status: 401, ...LETTERS } });
    await world.publish("ended", { id: "ended-1" });
    await session.shows(at("ended", "one"), "Mark as fixed");
    await session.click("Mark as fixed");
    await session.says("waits are ended");
    await accessible(page, ONE_LOOK);
  });

  act("dead letters are narrowed down, counted, sent again and purged", async (session, page, world) => {
    const path = "/letters";
    await world.topic("letters", { one: { path, status: 400, ...LETTERS } });
    const types = ["Paid", "Paid", "Sent"];
    await world.publish("letters", ...types.map((eventType, index) => ({ id: `letter-${index}`, eventType })));
    const list = at("letters", "one", "/dead-letters");
    await session.shows(list, "3 dead letters");
    await page.getByText("By event type").click();
    await session.click("Paid", "link");
    await session.says("2 dead letters");
    await session.field("Event id").fill("letter-1");
    await session.click("Show");
    await session.says("1 dead letters");
    await session.click("letter-1", "link");
    await session.says("UndeliverableDueToHttpBadRequest");
    world.endpoints.answers.set(path, 200);
    await session.go(`${list}?type=Paid`);
    await session.click("Redrive…", "link");
    await session.counts("2 events would be sent");
    await session.click("Send these 2 events");
    await page.getByText("2 of 2 events sent").waitFor();
    await accessible(page, ONE_LOOK);
    await until("both events", () => world.endpoints.taken("letter-0") && world.endpoints.taken("letter-1"));
    assert.equal(world.endpoints.taken("letter-2"), 0);
    await session.go(`${list}?sent=yes`);
    await session.click("Purge…", "link");
    await session.field(/^Type/).fill("letters");
    assert.equal(await session.click("Delete them for good"), 400);
    await session.says("Nothing was deleted");
    await session.go(at("letters", "one", "/purge"));
    await accessible(page, ONE_LOOK);
    await session.field(/^Type/).fill("letters/one");
    await session.click("Delete them for good");
    await session.says("3 dead letters in");
    await accessible(page, ONE_LOOK);
    await session.go(list);
    await session.says("There is no such dead letter.");
  });

  act("a redrive is canceled, and goes on", async (session, page, world) => {
    const path = "/canceled";
    // In few requests: after ten that fail, the rest would wait.
    const destination = world.destination(path, { maxEventsPerBatch: 5000, preferredBatchSizeInKilobytes: 1024 });
    await world.topic("canceled", { one: { path, status: 400, ...LETTERS, destination } });
    const many = Array.from({ length: 600 }, (_, index) => ({ id: `canceled-${index}` }));
    await world.publish("canceled", ...many);
    await session.shows(at("canceled", "one", "/dead-letters"), "600 dead letters");
    world.endpoints.answers.set(path, 200);
    await session.go(at("canceled", "one", "/redrive"));
    await session.counts("600 events would be sent", () => session.field(/^Events in a second/).fill("1"));
    await session.click("Send these 600 events");
    await page.getByText(/of 600 events sent/).first().waitFor();
    await session.click("Cancel");
    await session.says("The redrive is canceled");
    await page.getByText(/^Canceled: \d+ of 600 events sent/).waitFor();
    await accessible(page, ONE_LOOK);
    await session.click("Go on with it");
    await session.says("The redrive goes on.");
    await session.click("Cancel");
  });

  act("parked deliveries are released and ended", async (session, page) => {
    const boxes = page.locator("tr", { hasText: "parked/one" }).getByRole("checkbox");
    await session.shows("/waiting", "parked/one");
    await boxes.first().check();
    await session.click("Attempt selected now");
    await session.says("go back to their queues");
    await session.shows("/waiting", "parked/one");
    await boxes.first().check();
    assert.equal(await session.click("Cancel selected"), 400);
    await session.says("tick the box");
    await session.shows("/waiting", "parked/one");
    await boxes.first().check();
    await session.field(/^Cancel them/).check();
    await session.click("Cancel selected");
    await session.says("The parked deliveries end.");
  });

  act("the live tail shows attempts as they are made, and pauses", async (session, page, world) => {
    await world.topic("tailed", { one: {}, two: { path: "/tailed/two", status: 500 } });
    await session.go("/tail");
    await session.field("Topic", { exact: true }).selectOption("tailed");
    await session.field("Only failures").check();
    await session.click("Follow");
    await page.getByText("Live", { exact: true }).waitFor();
    await world.publish("tailed", { id: "tailed-1" });
    await page.locator("[data-stream] > *", { hasText: "tailed/two" }).first().waitFor();
    assert.equal(await page.locator("[data-stream] > *", { hasText: "tailed/one" }).count(), 0);
    await accessible(page);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByText("Paused.").waitFor();
    await page.getByRole("button", { name: "Go on" }).click();
    await page.getByText("Live", { exact: true }).waitFor();
  });

  act("the ledger and the cost follow what is asked", async (session, page) => {
    await session.go("/ledger");
    await session.click("1 h", "link");
    assert.match(page.url(), /since=1h$/);
    await session.says("By the hour of the publish");
    await session.go("/cost");
    await session.field("With so many events in a month instead").fill("1000000");
    await session.click("Calculate");
    await session.says(/1.000.000 events/);
  });

  act("what is shown is brought up to date, and said to be old when the console is gone", async (session, page, world) => {
    const console = await world.console();
    const other = await Session.open(ground.browser, console);
    await world.topic("fresh", { one: { path: "/fresh", status: 503 } });
    await other.go(at("fresh", "one"));
    await other.says("Healthy");
    await world.publish("fresh", { id: "fresh-1" });
    await until("the attempt", () => world.endpoints.received.some((one) => one.path === "/fresh"));
    const says = async (text) => await other.page.getByText(text).first().waitFor();
    await says("held back");
    await console.end();
    await says("This page is not up to date");
    other.forgive(/ERR_CONNECTION_RE|ERR_INCOMPLETE_CHUNKED/);
    await other.close();
    assert.ok(session && page);
  });

  test("messages of the poison queue are sent back and removed", async () => {
    const golden = new URL("shared/testkit/tests/golden/1/delivery-first.json", new URL("../../", import.meta.url));
    const world = await World.open({ kept: true });
    try {
      await world.rewrite(POISON, [readFileSync(golden, "utf8"), "<script>window.hacked = 1</script>"]);
      const session = await Session.open(ground.browser, await world.console());
      const { page } = session;
      const box = async (what) => {
        await session.shows("/waiting", what);
        await page.locator("tr", { hasText: what }).getByRole("checkbox").check();
      };
      await box("Unreadable");
      await session.says("About 2 messages.");
      await accessible(page);
      assert.equal(await session.click("Resend selected"), 400);
      await session.says("1 of 1 were not handled");
      await box("retry-");
      await session.click("Resend selected");
      await session.says("Done, as far as the queue gave its messages out.");
      await box("Unreadable");
      assert.equal(await session.click("Remove selected"), 400);
      await box("Unreadable");
      await session.field(/^Remove them for good/).check();
      await session.click("Remove selected");
      await session.says("It is empty.");
      await session.close();
    } finally {
      await world.close();
    }
  });
}
