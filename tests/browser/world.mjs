// A `gridpost dev`, endpoints whose answers a test chooses, and consoles: separate processes on free ports.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Far longer than anything here takes. */
export const PATIENCE_MS = 90_000;

const PROGRAM = process.env.GRIDPOST_PROGRAM;

/** Calls `look` until it returns something. What did not come may be told by a function. */
export async function until(what, look) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < end, `it did not come: ${typeof what === "function" ? what() : what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

const running = new Set();
const folders = new Set();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

/** Starts the program; its standard error is shown if it ends too early. */
function start(folder, args) {
  assert.ok(PROGRAM, "GRIDPOST_PROGRAM is not set: start the tests by tests/browser/run");
  const home = join(folder, ".gridpost");
  const stdio = ["ignore", "pipe", "pipe"];
  const child = spawn(PROGRAM, ["--home", home, ...args], { cwd: folder, env: {}, stdio });
  running.add(child);
  child.said = "";
  child.errors = "";
  child.stdout.on("data", (data) => { child.said += data; });
  child.stderr.on("data", (data) => { child.errors += data; });
  child.on("exit", () => running.delete(child));
  return child;
}

async function stop(child, signal = "SIGKILL") {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((done) => child.once("exit", done));
  child.kill(signal);
  await ended;
}

function check(child) {
  assert.equal(child.exitCode, null, `gridpost ended: ${child.errors}`);
}

/** Endpoints: each path answers as `answers` says, or 200 without an entry. */
export class Endpoints {
  /** By path, a status, or a function of the request's headers and events that gives `{status, text}`. */
  answers = new Map();
  /** What was delivered. */
  received = [];

  async open() {
    this.server = createServer((request, response) => this.#serve(request, response));
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    return this;
  }

  url(path) {
    return `http://127.0.0.1:${this.server.address().port}${path}`;
  }

  /** How often an event of that id was delivered and taken. */
  taken(id) {
    return this.received.filter((one) => one.status === 200 && one.events.some((event) => event.id === id)).length;
  }

  #serve(request, response) {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", async () => {
      const events = JSON.parse(Buffer.concat(chunks).toString() || "[]");
      if (request.headers["aeg-event-type"] === "SubscriptionValidation") {
        response.end(JSON.stringify({ validationResponse: events[0].data.validationCode }));
        return;
      }
      const answer = this.answers.get(request.url) ?? 200;
      const given = typeof answer === "function" ? await answer(request.headers, events) : { status: answer };
      this.received.push({ path: request.url, events, status: given.status });
      response.writeHead(given.status, { "content-type": "text/plain" });
      response.end(given.text ?? "");
    });
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

/** A `gridpost dev` with its endpoints. */
export class World {
  static async open({ speed = 60, kept = false } = {}) {
    const world = new World();
    world.consoles = [];
    world.folder = mkdtempSync(join(tmpdir(), "gridpost-browser-"));
    folders.add(world.folder);
    world.endpoints = await new Endpoints().open();
    world.flags = ["dev", "--port", "0", "--quiet", "--speed", String(speed), ...(kept ? [] : ["--memory"])];
    await world.#start();
    return world;
  }

  /** One that another process keeps. */
  static of(folder) {
    const world = Object.assign(new World(), { folder, consoles: [] });
    world.urls = JSON.parse(readFileSync(join(folder, ".gridpost", "local.json"), "utf8"));
    return world;
  }

  /** Changes the database with a Python program while the process is stopped: Node.js 20 has no SQLite. */
  async rewrite(program, input) {
    await stop(this.dev);
    const file = join(this.folder, ".gridpost", "dev", "gridpost.sqlite");
    execFileSync("python3", ["-c", program, file, JSON.stringify(input)]);
    await this.#start();
  }

  /** Goes on with another speed of the clock. */
  async pace(speed) {
    await stop(this.dev, "SIGINT");
    this.flags[this.flags.indexOf("--speed") + 1] = String(speed);
    await this.#start();
  }

  async #start() {
    const local = join(this.folder, ".gridpost", "local.json");
    rmSync(local, { force: true });
    this.dev = start(this.folder, this.flags);
    await until("gridpost dev", () => { check(this.dev); return existsSync(local); });
    this.urls = JSON.parse(readFileSync(local, "utf8"));
  }

  /** A console: its URL, and the link that signs in. */
  async console(...flags) {
    const child = start(this.folder, ["--json", "console", "--no-browser", "--port", "0", ...flags]);
    const said = await until("gridpost console", () => {
      check(child);
      try { return JSON.parse(child.said); } catch { return null; }
    });
    const console = { ...said, end: () => stop(child) };
    this.consoles.push(console);
    return console;
  }

  /** Asks the manage API. */
  async manage(method, path, document) {
    const body = document === undefined ? undefined : JSON.stringify(document);
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const answer = await fetch(`${this.urls.manageUrl}${path}`, { method, body, headers: { "content-type": type } });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  /** A topic with event subscriptions: by name, the endpoint's path and more properties. */
  async topic(name, subscriptions = {}) {
    await this.manage("PUT", `/topics/${name}`, { properties: {} });
    for (const [one, { path = `/${name}/${one}`, status = 200, ...more }] of Object.entries(subscriptions)) {
      if (!this.endpoints.answers.has(path)) this.endpoints.answers.set(path, status);
      const document = { properties: { destination: this.destination(path), ...more } };
      await this.manage("PUT", `/topics/${name}/eventSubscriptions/${one}`, document);
    }
  }

  destination(path, more = {}) {
    return { endpointType: "WebHook", properties: { endpointUrl: this.endpoints.url(path), ...more } };
  }

  /** Publishes events, and adds the members that they lack. */
  async publish(topic, ...events) {
    const { key1 } = await this.manage("POST", `/topics/${topic}/listKeys`, {});
    const body = JSON.stringify(events.map(event));
    const headers = { "aeg-sas-key": key1, "content-type": "application/json" };
    const answer = await fetch(`${this.urls.publishUrl}/topics/${topic}/api/events`, { method: "POST", body, headers });
    assert.equal(answer.status, 200, await answer.text());
  }

  async close() {
    for (const console of this.consoles) await console.end();
    await stop(this.dev);
    this.endpoints.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Where dead letters go. */
export const LETTERS = { deadLetterDestination: { endpointType: "S3Bucket", properties: { bucketName: "gridpost" } } };

/** An event of Event Grid's schema. */
export function event(members) {
  const time = "2030-01-02T03:04:05Z";
  return { id: "e-1", eventType: "Sample", subject: "s", eventTime: time, dataVersion: "1", data: {}, ...members };
}
