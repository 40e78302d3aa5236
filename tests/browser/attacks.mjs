// Attacks by other sites, other programs' pages and hostile events. Each test is a row of a table in docs/console.md.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, test } from "node:test";

import { ELSEWHERE, REBOUND, Session } from "./browser.mjs";
import { hostile } from "./hostile.mjs";
import { rows } from "./routes.mjs";
import { driven } from "./stream.mjs";
import { until } from "./world.mjs";

/** Another party's web site, on its own port. */
class Site {
  html = "<!doctype html><title>Elsewhere</title>";

  async open() {
    this.server = createServer((request, response) => {
      this.asked.push(request.url);
      response.setHeader("content-type", request.url.endsWith(".js") ? "text/javascript" : "text/html");
      response.end(request.url.endsWith(".js") ? "window.hacked = 1" : this.html);
    });
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    const { port } = this.server.address();
    /** Of another site, and of another port of the console's own. */
    this.origins = { elsewhere: `http://${ELSEWHERE}:${port}`, neighbour: `http://127.0.0.1:${port}` };
    return this;
  }

  asked = [];

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

/** A secret that only a signed-in browser shows, and a change that would be visible. */
const TOPIC = "/topics/attacked";
const FORM = { key: "key1", agreed: "yes", csrf: "guess" };

export function attacks(ground) {
  const names = [];
  let site;

  /** A test in a signed-in browser, with a site that knows the console's address. */
  const attack = (name, does) => {
    names.push(name);
    test(name, async () => {
      site ??= await new Site().open();
      await ground.world.topic("attacked");
      const session = await Session.open(ground.browser, ground.console);
      session.others = [...Object.values(site.origins), ground.console.url.replace("127.0.0.1", REBOUND)];
      const keys = async () => await ground.world.manage("POST", "/topics/attacked/listKeys", {});
      const before = await keys();
      await does(session, session.page, ground.console.url);
      assert.deepEqual(await keys(), before, "a key was replaced");
      assert.equal(await session.page.evaluate("window.hacked"), undefined);
      await session.close();
    });
  };

  /** The console's answer to a page from elsewhere, and the cookie that came with the request. */
  const answered = async (page, path, does) => {
    const isIt = (one) => new URL(one.url()).pathname === path;
    const [answer] = await Promise.all([page.waitForResponse(isIt), page.waitForURL((url) => url.pathname === path), does()]);
    const { cookie = "" } = await answer.request().allHeaders();
    return { status: answer.status(), hasCookie: cookie.includes("gridpost-console") };
  };

  const submit = (url) => `<!doctype html><form id="form" method="post" action="${url}${TOPIC}/keys/rotate">
    ${Object.entries(FORM).map(([name, value]) => `<input name="${name}" value="${value}">`).join("")}</form>`;

  attack("a form on another site sends a change", async (session, page, url) => {
    site.html = submit(url);
    await page.goto(site.origins.elsewhere);
    const path = `${TOPIC}/keys/rotate`;
    const { status, hasCookie } = await answered(page, path, () => page.evaluate(() => document.forms[0].submit()));
    assert.deepEqual([status, hasCookie], [403, false]);
    session.forgive(/status of 403/);
  });

  attack("a form on another port of this machine sends a change, and the cookie goes with it", async (session, page, url) => {
    site.html = submit(url);
    await page.goto(site.origins.neighbour);
    const path = `${TOPIC}/keys/rotate`;
    const { status, hasCookie } = await answered(page, path, () => page.evaluate(() => document.forms[0].submit()));
    assert.deepEqual([status, hasCookie], [403, true]);
    await session.says("did not come from a page of this console");
    session.forgive(/status of 403/);
  });

  attack("scripts of another site and of another port ask for changes and read pages", async (session, page, url) => {
    for (const origin of Object.values(site.origins)) {
      await page.goto(origin);
      const asked = await page.evaluate(async ([url, topic, form]) => {
        const ask = async (path, settings) => {
          try {
            const answer = await fetch(url + path, { credentials: "include", ...settings });
            return `${answer.type} ${await answer.text()}`;
          } catch { return "nothing"; }
        };
        const body = new URLSearchParams(form);
        return [
          await ask(`${topic}/keys/rotate`, { method: "POST", mode: "no-cors", body }),
          await ask(`${topic}/keys/rotate`, { method: "POST", mode: "cors", body }),
          await ask(`${topic}/keys/rotate`, { method: "POST", body: "{}", headers: { "content-type": "application/json" } }),
          await ask(`${topic}/keys/rotate`, { method: "POST", mode: "no-cors", body, headers: { "content-type": "text/plain" } }),
          await ask(topic, { mode: "no-cors" }),
          await ask(topic, { mode: "cors" }),
        ];
      }, [url, TOPIC, FORM]);
      // An opaque answer has no text; one that is blocked is none.
      for (const one of asked) assert.ok(["nothing", "opaque "].includes(one), one);
    }
    session.forgive(/CORS|Failed to load resource|ERR_BLOCKED/);
  });

  attack("another site opens a live tail, and the stream of a page", async (session, page, url) => {
    for (const origin of Object.values(site.origins)) {
      await page.goto(origin);
      for (const path of ["/tail/stream", "/live?page=/"]) {
        const opened = await page.evaluate((url) => new Promise((done) => {
          const source = new EventSource(url, { withCredentials: true });
          source.onopen = () => done("open");
          source.onerror = () => done("refused");
        }), url + path);
        assert.equal(opened, "refused", path);
      }
    }
    session.forgive(/CORS|Failed to load resource|EventSource/);
  });

  attack("the stream of a page is asked for other sites, for sign-in, for itself, and for a stream without an end", async (session, page, url) => {
    await session.go("/");
    const other = site.origins.elsewhere;
    const before = site.asked.length;
    const { hostname, port } = new URL(other);
    const asked = [other, `//${hostname}:${port}/`, `/\\${hostname}:${port}/`, `${url}@${hostname}:${port}/`, "javascript:window.hacked = 1",
      "data:text/html,<p>x", "file:///etc/hostname", "/sign-in?token=guess", "/live?page=/", "/%6cive?page=%2F", "/tail/stream",
      "/assets/console.js", "/nothing", "/../", "/\r\nx: y", "", `${TOPIC}/keys`, `${TOPIC}/publish?as=json`];
    const tell = async (asked) => await page.evaluate(async (asked) => {
      const all = asked.map((one) => new Promise((done) => {
        const told = [];
        const source = new EventSource(`/live?page=${encodeURIComponent(one)}`);
        const end = () => { source.close(); done(told); };
        for (const name of ["part", "problem", "over"]) {
          source.addEventListener(name, (message) => {
            told.push(`${name} ${message.data}`);
            if (name !== "part") end();
          });
        }
        source.onerror = end;
      }));
      return await Promise.all(all);
    }, asked);
    // A browser has six connections to a site.
    const told = [];
    for (let from = 0; from < asked.length; from += 5) told.push(...await tell(asked.slice(from, from + 5)));
    // The page of publishing is a page, and none of its parts comes anew.
    for (const [index, events] of told.entries()) assert.ok(["over -", "problem -"].includes(events.join()), `${asked[index]}: ${events}`);
    assert.equal(site.asked.length, before, site.asked.join(" "));
    assert.equal((await session.context.cookies()).length, 1);
    await session.go("/");
  });

  attack("parts that came by the stream are asked to run scripts", async (session, page) => {
    await driven(session, "/");
    const refused = await page.evaluate(async (other) => {
      const found = [];
      document.addEventListener("securitypolicyviolation", (one) => found.push(one.effectiveDirective));
      const id = document.querySelector("[data-part]").id;
      const html = `<div id="${id}" data-part><script>window.hacked = 1</script><img src="${other}/z.png" onerror="window.hacked = 1">
        <form data-preview="${other}/typed" data-parts="main"><input id="typed"></form><iframe src="${other}"></iframe></div>`;
      window.streams[0].tell("part", JSON.stringify(html));
      document.getElementById("typed").dispatchEvent(new Event("input", { bubbles: true }));
      for (let look = 0; look < 1000 && found.length < 3; look += 1) await new Promise((done) => setTimeout(done, 10));
      return [...new Set(found)].sort();
    }, site.origins.elsewhere);
    assert.deepEqual(refused, ["frame-src", "img-src", "script-src-attr"]);
    assert.ok(!site.asked.some((path) => /z\.png|typed/.test(path)), site.asked.join(" "));
    session.forgive(/Content Security Policy|violates/);
  });

  attack("another site shows the console in a frame", async (session, page, url) => {
    site.html = `<!doctype html><iframe src="${url}/"></iframe>`;
    for (const origin of Object.values(site.origins)) {
      await page.goto(origin);
      const frame = await (await page.locator("iframe").elementHandle()).contentFrame();
      assert.ok(!frame.url().startsWith(url) || (await frame.locator("body").innerText()) === "", frame.url());
      assert.equal(await frame.locator("nav").count(), 0);
    }
    session.forgive(/frame|Failed to load resource/i);
  });

  attack("another site loads the console's pages and files as scripts, styles and pictures", async (session, page, url) => {
    site.html = `<!doctype html><script src="${url}/assets/console.js"></script><script src="${url}${TOPIC}"></script>
      <link rel="stylesheet" href="${url}/assets/console.css"><img src="${url}/assets/icon.svg">`;
    for (const origin of Object.values(site.origins)) {
      await page.goto(origin);
      const loaded = await page.evaluate(() => [document.images[0].naturalWidth,
        getComputedStyle(document.documentElement).getPropertyValue("--bg")]);
      assert.deepEqual(loaded, [0, ""]);
    }
    session.forgive(/Failed to load resource|MIME|ERR_BLOCKED/);
  });

  attack("another site opens the console in a window and looks into it", async (session, page, url) => {
    site.html = `<!doctype html><button onclick="window.other = window.open('${url}${TOPIC}')">x</button>`;
    await page.goto(site.origins.elsewhere);
    const [opened] = await Promise.all([session.context.waitForEvent("page"), page.getByRole("button").click()]);
    await opened.getByText("This browser is not signed in").waitFor();
    assert.equal(await opened.evaluate(() => window.opener), null);
    assert.ok(await page.evaluate(() => window.other.closed), "the site still holds the window");
    // It came without its cookie; the link on the page brings it.
    await opened.getByRole("link", { name: "open the page" }).click();
    await opened.getByRole("heading", { name: "attacked" }).waitFor();
    session.forgive(/status of 401/);
  });

  attack("a link leads to a path that a browser takes for another site", async (session, page, url) => {
    site.html = `<!doctype html><a href="${url}//${ELSEWHERE}/x">x</a>`;
    await page.goto(site.origins.elsewhere);
    await page.getByRole("link").click();
    await page.getByText("This browser is not signed in").waitFor();
    assert.equal(await page.getByRole("link", { name: "open the page" }).count(), 0);
    session.forgive(/status of 401/);
  });

  attack("a name that leads to 127.0.0.1 (DNS rebinding)", async (session, page, url) => {
    const rebound = url.replace("127.0.0.1", REBOUND);
    for (const path of ["/", TOPIC, "/sign-in", "/assets/console.js"]) {
      const answer = await page.goto(rebound + path);
      assert.equal(answer.status(), 421, path);
    }
    session.forgive(/status of 421|Opener-Policy|MIME/);
  });

  attack("the link is used by another browser", async (session) => {
    const stranger = await ground.browser.newContext();
    const other = await stranger.newPage();
    const answer = await other.goto(ground.console.signInUrl);
    assert.deepEqual([answer.status(), await stranger.cookies()], [401, []]);
    assert.equal((await other.goto(`${ground.console.url}${TOPIC}`)).status(), 401);
    await stranger.close();
    await session.go("/");
  });

  attack("a script asks for the cookie, and for what the browser has stored", async (session, page) => {
    await session.go(TOPIC);
    await session.click("Show");
    const kept = await page.evaluate(() => document.cookie + JSON.stringify([localStorage, sessionStorage]));
    const token = await page.locator("input[name=csrf]").first().getAttribute("value");
    const { key1, key2 } = await ground.world.manage("POST", "/topics/attacked/listKeys", {});
    for (const secret of [token, key1, key2, "gridpost-console"]) assert.ok(!kept.includes(secret), kept);
    assert.equal((await session.context.cookies()).filter((one) => one.httpOnly && one.sameSite === "Strict").length, 1);
  });

  attack("markup has got into a page all the same", async (session, page) => {
    await session.go(TOPIC);
    const all = ["base-uri", "connect-src", "form-action", "frame-src", "img-src", "object-src", "script-src",
      "script-src-attr", "script-src-elem", "style-src-elem"];
    const refused = await page.evaluate(async ([other, all]) => {
      const found = new Set();
      document.addEventListener("securitypolicyviolation", (one) => found.add(one.effectiveDirective));
      const main = document.getElementById("main");
      const put = (markup) => main.append(document.createRange().createContextualFragment(markup));
      put("<script>window.hacked = 1</script>");
      put(`<img src="${other}/z.png" onerror="window.hacked = 1">`);
      put('<svg onload="window.hacked = 1"></svg>');
      put(`<script src="${other}/x.js"></script><img src="${other}/x.png"><iframe src="${other}"></iframe>`);
      put(`<style>body { background: url(${other}/y) }</style><link rel="stylesheet" href="${other}/x.css">`);
      put('<base href="http://elsewhere.test/"><object data="x"></object>');
      put(`<form id="gone" method="post" action="${other}/form"></form>`);
      put('<div id="swapped" onclick="window.hacked = 1"></div>');
      document.getElementById("swapped").click();
      document.getElementById("gone").submit();
      setTimeout("window.hacked = 1");
      await fetch(`${other}/fetched`).catch(() => null);
      for (let look = 0; look < 1000 && found.size < all.length; look += 1) {
        await new Promise((done) => setTimeout(done, 10));
      }
      return [...found].sort();
    }, [site.origins.elsewhere, all]);
    assert.deepEqual(refused, all);
    assert.ok(!site.asked.some((path) => /[xz]\.|y$|form|fetched/.test(path)), site.asked.join(" "));
    session.forgive(/Content Security Policy|violates/);
  });

  attack("a console with --read-only is sent every kind of change from its own page", async (session) => {
    const console = await ground.world.console("--read-only");
    const reader = await Session.open(ground.browser, console);
    const { page } = reader;
    for (const path of ["/", TOPIC]) {
      await reader.go(path);
      assert.equal(await page.locator("form[method=post]").count(), 0, path);
    }
    for (const below of ["/keys", "/keys/rotate", "/publish"]) {
      const status = await page.evaluate(async ([path, form]) =>
        (await fetch(path, { method: "POST", body: new URLSearchParams(form) })).status, [TOPIC + below, FORM]);
      assert.equal(status, 403, below);
    }
    reader.forgive(/status of 403/);
    await reader.close();
    await console.end();
    await session.go("/");
  });

  attack("the Back button, to a page with keys, after the console has ended", async (session) => {
    const console = await ground.world.console();
    const other = await Session.open(ground.browser, console);
    await other.go(TOPIC);
    await other.click("Show");
    const { key1 } = await ground.world.manage("POST", "/topics/attacked/listKeys", {});
    await other.says(key1);
    await other.go("/cost");
    await console.end();
    await other.page.goBack().catch(() => null);
    const shown = await until("what Back shows", async () => await other.page.content().catch(() => null));
    assert.ok(!shown.includes(key1));
    other.forgive(/ERR_/);
    await other.close();
    await session.go("/");
  });

  hostile(ground, attack);

  test("each of these attacks is a row of docs/console.md", () => {
    assert.deepEqual(rows("### In a real browser"), names);
  });

  after(() => site?.close());
}
