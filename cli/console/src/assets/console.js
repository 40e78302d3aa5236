"use strict";
// Times in the reader's zone, a note when the page is out of date, and the live tail. All text goes in as text.
(() => {
  const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  const localTimes = (root) => {
    for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) {
        time.textContent = zone.format(at);
        time.dataset.local = "";
      }
    }
  };

  const stale = (is) => {
    const note = document.getElementById("stale");
    if (note) note.hidden = !is;
  };

  const LINES_MAX = 500;

  const entry = (line) => {
    const item = document.createElement("li");
    item.id = `line-${line.id}`;
    item.dataset.at = line.at;
    const time = document.createElement("time");
    time.dateTime = line.time;
    time.title = line.time;
    time.textContent = line.time;
    const link = document.createElement("a");
    link.href = line.url;
    link.textContent = line.subscription;
    const what = document.createElement("span");
    what.className = line.good ? "good" : "bad";
    what.textContent = line.told;
    item.append(time, " ", link, " ", line.number, " ", what);
    return item;
  };

  // Streams begin a little before where they were, and lines may be found late: each is shown once, at its time.
  const add = (list, line) => {
    document.getElementById("tail-empty")?.remove();
    if (document.getElementById(`line-${line.id}`)) return;
    const older = [...list.children].find((item) => Number(item.dataset.at) <= line.at);
    list.insertBefore(entry(line), older ?? null);
    while (list.children.length > LINES_MAX) list.lastElementChild.remove();
    localTimes(list);
  };

  const follow = (list) => {
    const state = document.getElementById("tail-state");
    const pause = document.getElementById("tail-pause");
    let source = null;
    let last = list.dataset.from;
    const say = (text) => { state.textContent = text; };
    const stop = (text) => {
      source.close();
      source = null;
      pause.textContent = "Go on";
      say(text);
    };
    const start = () => {
      const url = new URL(list.dataset.stream, location.href);
      url.searchParams.set("from", last);
      source = new EventSource(url);
      pause.textContent = "Pause";
      source.onopen = () => say("Live.");
      source.addEventListener("attempt", (message) => {
        last = message.lastEventId || last;
        add(list, JSON.parse(message.data));
      });
      source.addEventListener("position", (message) => { last = message.lastEventId || last; });
      source.addEventListener("gap", (message) => {
        const item = document.createElement("li");
        item.className = "warn";
        item.dataset.at = last;
        item.textContent = JSON.parse(message.data);
        list.prepend(item);
      });
      source.addEventListener("problem", (message) => stop(JSON.parse(message.data)));
      source.onerror = () => {
        if (source.readyState === EventSource.CONNECTING) say("The connection is lost; trying again.");
        else stop("The stream has ended: the console was ended, or this browser is not signed in. Nothing is tried again.");
      };
    };
    pause.hidden = false;
    pause.addEventListener("click", () => {
      if (source !== null) stop("Paused."); else start();
    });
    // A hidden page has no reader, and a look may cost money.
    let waits = document.hidden;
    document.addEventListener("visibilitychange", () => {
      if (document.hidden && source !== null) {
        waits = true;
        stop("Paused while the page is hidden.");
      } else if (!document.hidden && waits) {
        waits = false;
        start();
      }
    });
    if (!waits) start();
  };

  // Parts of a page are fetched anew. htmx keeps the focus on an element that has an id; what it does not keep: how
  // far such a part was scrolled, and the focus on what is gone.
  const kept = new Map();
  const swapped = (part) => {
    for (const region of part.querySelectorAll("[id][tabindex]")) {
      if (region.scrollLeft || region.scrollTop) kept.set(region.id, [region.scrollLeft, region.scrollTop]);
    }
    if (part.contains(document.activeElement)) kept.set("", part.id);
  };
  const settled = () => {
    const part = document.getElementById(kept.get("") ?? "");
    if (part && document.activeElement === document.body) {
      part.tabIndex = -1;
      part.focus({ preventScroll: true });
    }
    kept.delete("");
    for (const [id, [left, top]] of kept) document.getElementById(id)?.scrollTo(left, top);
    kept.clear();
  };

  // What was typed is checked while one types: problems come and go below their fields.
  const problems = () => {
    stale(false);
    for (const place of document.querySelectorAll("[data-problem-of]")) {
      const field = document.getElementById(place.dataset.problemOf);
      if (place.textContent.trim()) field?.setAttribute("aria-invalid", "true");
      else field?.removeAttribute("aria-invalid");
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    localTimes(document);
    document.body.addEventListener("htmx:beforeSwap", (event) => swapped(event.detail.target));
    document.body.addEventListener("htmx:afterSwap", () => { stale(false); localTimes(document); });
    document.body.addEventListener("htmx:afterSettle", settled);
    document.body.addEventListener("htmx:oobAfterSwap", problems);
    for (const failed of ["htmx:responseError", "htmx:sendError"]) {
      document.body.addEventListener(failed, () => stale(true));
    }
    const list = document.querySelector("[data-stream]");
    if (list) follow(list);
  });
})();
