// Events, answers and addresses that try to be more than text.
import assert from "node:assert/strict";

import { LETTERS, event } from "./world.mjs";

/** Texts that would run, load or navigate if a page treated them as markup. */
const MARKUP = [
  "<script>window.hacked = 1</script>",
  "\"><img src=x onerror=\"window.hacked = 1\">",
  "'><svg onload='window.hacked = 1'></svg>",
  "</textarea></title></pre><iframe src=\"http://elsewhere.test/\"></iframe>",
  "<a href=\"javascript:window.hacked = 1\">x</a>",
  "<form data-preview=\"http://elsewhere.test/\" data-parts=\"main\"><input><button data-copy=\"hacked\">x</button></form>",
  "<table><tbody data-stream=\"http://elsewhere.test/\" data-from=\"0\"></tbody></table>",
  "<!--/part--><!--part main--><marquee id=\"main\">x</marquee><!--/part-->",
  "<meta http-equiv=\"refresh\" content=\"0; url=http://elsewhere.test/\">",
  "&lt;marquee&gt; &amp;amp; {{1+1}} ${1+1} <!-- --> ]]>",
];

/** Characters that reorder the text around them or are invisible, including null and escape. */
const HIDDEN = ["\u202egnp.exe", "\u2066a\u2069", "\u200bzero", "\ufeffmark", "\u0000nul", "\u001b[31mred", "\u0085next"];

const HIDES = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/;

/** Fields of a retry policy. */
const POLICY = ["maxDeliveryAttempts", "eventTimeToLiveInMinutes", "schedule"];

/** Elements on a page that the console never writes. */
const STRANGE = "img:not([src='/assets/icon.svg']), iframe, object, main script, [onerror], [onload], [href^='javascript:'], "
  + "[data-preview^=http], [data-copy=hacked], [data-stream^=http], meta[http-equiv], marquee";

export function hostile(ground, attack) {
  /** Opens a page that shows hostile text, as text. */
  const harmless = async (session, path, ...statuses) => {
    const page = await session.go(path, ...statuses);
    assert.equal(await page.locator(STRANGE).count(), 0, path);
    return await page.evaluate(() => document.documentElement.textContent);
  };

  attack("ids, types, subjects and data of events that are markup, scripts and what the console's script looks for", async (session, page) => {
    const { world } = ground;
    await world.topic("hostile", { one: { status: 400, ...LETTERS } });
    const at = (below) => `/topics/hostile/subscriptions/one${below}`;
    for (const [index, text] of MARKUP.entries()) {
      await world.publish("hostile", { id: `${index} ${text}`, eventType: text, subject: text, data: { [text]: text } });
    }
    await session.shows(at("/dead-letters"), `${MARKUP.length} dead letters`);
    for (const text of MARKUP) assert.ok((await page.locator("main").textContent()).includes(text), text);
    const links = await page.locator("main td a").evaluateAll((those) => those.map((one) => one.getAttribute("href")));
    assert.equal(links.length, MARKUP.length);
    for (const [index, link] of links.entries()) {
      const shown = await harmless(session, link);
      assert.ok(MARKUP.some((text) => shown.includes(text)), link);
      if (index < 2) {
        await session.click("Find event", "link");
        assert.equal(await page.locator(STRANGE).count(), 0);
        await session.go(link);
        await session.click("Redrive…", "link");
        assert.equal(await page.locator(STRANGE).count(), 0);
        await session.counts("1 events would be sent");
        assert.equal(await page.locator(STRANGE).count(), 0);
      }
    }
    const one = encodeURIComponent(MARKUP[0]);
    for (const path of [at(`/dead-letters?type=${one}`), at(`/purge?type=${one}`), "/ledger", "/tail?topic=hostile", at("")]) {
      await harmless(session, path);
    }
  });

  attack("the same in forms: events to publish, to explain and to try filters on", async (session, page) => {
    await ground.world.topic("reflected", { one: { filter: { subjectBeginsWith: MARKUP[1] } } });
    const text = MARKUP.join(" ");
    const whole = JSON.stringify(event({ id: text, eventType: text, data: { [text]: text } }));
    await session.go("/topics/reflected/publish?as=json");
    for (const given of [whole, text]) {
      await session.field("Event").fill(given);
      await session.click("Who would get it?");
      assert.equal(await session.field("Event").inputValue(), given);
      assert.equal(await page.locator(STRANGE).count(), 0);
    }
    await session.go(`/events?topic=reflected&id=${encodeURIComponent(text)}`);
    await page.getByText("Who did not want it, and why").click();
    await session.field("The event as it was published").fill(whole);
    await session.click("Ask every filter");
    await session.says(MARKUP[1]);
    assert.equal(await page.locator(STRANGE).count(), 0);
    await session.go("/topics/reflected/subscriptions/one/filter");
    await session.field(/^Sample event/).fill(JSON.stringify(MARKUP.map((text) => event({ id: text }))));
    await session.click("Test filter");
    for (const text of MARKUP) await session.says(text);
    assert.equal(await page.locator(STRANGE).count(), 0);
  });

  attack("right-to-left text and control characters in events", async (session, page) => {
    const { world } = ground;
    await world.topic("hidden", { one: { status: 400, ...LETTERS } });
    const text = HIDDEN.join(" ");
    await world.publish("hidden", { id: `h-1 ${text}`, eventType: text, subject: text, data: { [text]: text } });
    const list = "/topics/hidden/subscriptions/one/dead-letters";
    await session.shows(list, "1 dead letters");
    const link = await page.locator("main td a").first().getAttribute("href");
    for (const path of [list, link, `/events?topic=hidden&id=${encodeURIComponent(`h-1 ${text}`)}`, "/tail?topic=hidden"]) {
      await session.go(path);
      const shown = await page.evaluate(() => document.querySelector("h1").parentElement.innerText);
      assert.ok(!HIDES.test(shown.replace(/[\n\t\u202f]/g, "")), `${path}: ${JSON.stringify(shown)}`);
    }
    await session.go(link);
    await session.says("\\u{202e}gnp.exe");
  });

  attack("an event of 1 MiB", async (session, page) => {
    const { world } = ground;
    await world.topic("large", { one: { path: "/large", status: 400, ...LETTERS } });
    const whole = JSON.stringify(event({ id: "large-1", data: "<b>".repeat(349_000) }));
    assert.ok(whole.length > 1_045_000 && whole.length <= 1_048_576, `${whole.length} bytes`);
    await session.go("/topics/large/publish?as=json");
    await session.field("Event").fill(whole);
    await session.click("Publish");
    await session.says("Accepted");
    const list = "/topics/large/subscriptions/one/dead-letters";
    await session.shows(list, "1 dead letters");
    await session.click("large-1", "link");
    await session.says("<b><b><b>");
    assert.equal(await page.locator(STRANGE).count(), 0);
    await harmless(session, "/events?topic=large&id=large-1");
  });

  attack("an endpoint that answers with markup and control characters", async (session, page) => {
    const { world } = ground;
    const text = MARKUP.join(" ") + HIDDEN.join(" ");
    world.endpoints.answers.set("/answers", () => ({ status: 503, text }));
    await world.topic("answers", { one: { path: "/answers" } });
    await world.publish("answers", { id: "answers-1" });
    await session.shows("/topics/answers/subscriptions/one/deliveries", "503");
    const link = await page.locator("main td a").first().getAttribute("href");
    assert.ok((await harmless(session, link)).includes(MARKUP[0]));
    assert.ok((await harmless(session, "/events?topic=answers&id=answers-1")).includes(MARKUP[0]));
    await session.go("/topics/answers/subscriptions/one/test-event");
    await session.click("Send test event");
    await session.says(MARKUP[0]);
    assert.equal(await page.locator(STRANGE).count(), 0);
  });

  attack("the same while one types: previews of a form, and the search", async (session, page) => {
    await ground.world.topic("typed", { one: { filter: { subjectBeginsWith: MARKUP[1] } } });
    const text = MARKUP.join(" ").replace("\n", " ");
    await session.go("/topics/typed/publish");
    for (const label of ["Id", "Subject", "Event type"]) await session.field(label, { exact: true }).fill(text);
    await session.field("Event time").fill(text);
    await page.getByText("eventTime must be a date-time").first().waitFor();
    await session.says("one");
    assert.equal(await page.locator(STRANGE).count(), 0);
    await session.go("/topics/typed/subscriptions/one/retry");
    await session.field("Own schedule").fill(text);
    await page.locator("#timeline [role=alert]").waitFor();
    assert.equal(await page.locator(STRANGE).count(), 0);
    await page.getByRole("searchbox", { name: "Find an event by its id" }).fill(text);
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.searchParams.get("id") === text);
    assert.equal(await page.locator(STRANGE).count(), 0);
    session.forgive(/status of 400/);
  });

  attack("a command that is copied, with an id that is markup and shell", async (session, page) => {
    await session.context.grantPermissions(["clipboard-read", "clipboard-write"]);
    for (const text of [`$(touch hacked); '"\`x\``, `${MARKUP[0]} ${HIDDEN.join(" ")}`, "a\nrm -rf x"]) {
      await session.go(`/events?topic=attacked&id=${encodeURIComponent(text)}&exact=yes`);
      await page.getByRole("button", { name: "Copy the command" }).click();
      await page.getByText("Copied.").waitFor();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      assert.equal(copied, await page.locator("aside.cli code").textContent());
      assert.ok(!HIDES.test(copied) && !copied.includes("\n"), JSON.stringify(copied));
      assert.ok(!/[$`;]/.test(copied.replace(/\$?'[^']*'|\\'/g, "")), copied);
    }
  });

  attack("hostile answers in parts that come anew", async (session, page) => {
    const { world } = ground;
    const text = MARKUP.join(" ") + HIDDEN.join(" ");
    await world.topic("anew", { one: { path: "/anew" } });
    for (const path of ["/", "/topics/anew/subscriptions/one"]) {
      await session.go(path);
      world.endpoints.answers.set("/anew", () => ({ status: 503, text }));
      await world.publish("anew", { id: `anew-${path} ${MARKUP[0]}` });
      await page.locator("[data-part]").getByText(MARKUP[0]).first().waitFor({ state: "attached" });
      assert.equal(await page.locator(STRANGE).count(), 0);
      const shown = await page.locator("main").innerText();
      assert.ok(!HIDES.test(shown.replace(/[\n\t\u202f]/g, "")), JSON.stringify(shown));
    }
  });

  attack("hostile ids in the live tail", async (session, page) => {
    await ground.world.topic("streamed", { one: {} });
    await session.go("/tail?topic=streamed");
    await page.getByText("Live", { exact: true }).waitFor();
    await ground.world.publish("streamed", { id: MARKUP[0] + MARKUP[1] + HIDDEN[0] });
    await page.locator("[data-stream] > *").first().waitFor();
    const shown = await page.locator("[data-stream]").innerText();
    assert.ok(shown.includes(MARKUP[0]) && shown.includes("\\u{202e}"), shown);
    assert.equal(await page.locator(STRANGE).count(), 0);
  });

  attack("the same in addresses: names, filters, notices, pages that do not exist", async (session) => {
    await ground.world.topic("addressed", { one: LETTERS });
    const at = "/topics/addressed/subscriptions/one";
    for (const text of [MARKUP.join(" "), HIDDEN.join(" ")]) {
      const one = encodeURIComponent(text);
      const refused = [`/${one}`, `/topics/${one}`, `${at}/deliveries/${one}`, `${at}/dead-letters/${one}`,
        `${at}/redrives/${one}`, `/cost?events=${one}`, `/tail?topic=${one}&name=${one}`];
      const answered = [`/?done=${one}`, `/topics/addressed?after=${one}`, `/ledger?since=${one}&after=${one}`,
        `/events?topic=addressed&id=${one}&since=${one}`,
        `${at}/retry?${POLICY.map((it) => `retryPolicy.${it}=${one}`).join("&")}&answers=${one}`,
        `${at}/dead-letters?reason=${one}&type=${one}`, `${at}/redrive?event=${one}&reason=${one}`,
        `${at}/purge?event=${one}`];
      for (const path of [...refused, ...answered]) {
        const shown = await harmless(session, path, ...(refused.includes(path) ? [400, 404] : [200]));
        assert.ok(!HIDES.test(shown.replace(/[\n\t\u202f]/g, "")), `${path}: ${JSON.stringify(shown)}`);
      }
    }
  });
}
