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

  const follow = (list) => {
    const state = document.getElementById("tail-state");
    const pause = document.getElementById("tail-pause");
    let source = null;
    const say = (text) => { state.textContent = text; };
    const start = () => {
      source = new EventSource(list.dataset.stream);
      source.onopen = () => say("Live.");
      source.addEventListener("attempt", (message) => {
        list.prepend(entry(JSON.parse(message.data)));
        while (list.children.length > LINES_MAX) list.lastElementChild.remove();
        localTimes(list);
      });
      source.addEventListener("problem", (message) => {
        say(JSON.parse(message.data));
        source.close();
      });
      source.onerror = () => say("The connection is lost; trying again.");
    };
    pause.hidden = false;
    pause.addEventListener("click", () => {
      const runs = source !== null;
      pause.textContent = runs ? "Go on" : "Pause";
      if (runs) { source.close(); source = null; say("Paused."); } else { start(); }
    });
    start();
  };

  document.addEventListener("DOMContentLoaded", () => {
    localTimes(document);
    document.body.addEventListener("htmx:afterSwap", () => { stale(false); localTimes(document); });
    for (const failed of ["htmx:responseError", "htmx:sendError"]) {
      document.body.addEventListener(failed, () => stale(true));
    }
    const list = document.querySelector("[data-stream]");
    if (list) follow(list);
  });
})();
