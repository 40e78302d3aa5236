"use strict";
// Times in the reader's zone, charts' numbers, copying, dialogs, keys, previews, and parts that come anew. What comes
// from elsewhere goes in as text; HTML comes from this console alone.
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Relative times begin with the deployment's clock, which may be a fast one, or with this machine's.
  let shift = 0;
  const at = (now) => { if (now) shift = Number(now) - Date.now(); };
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const minute = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

  const length = (seconds) => {
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    const minutes = Math.floor(seconds / 60) % 60;
    return `${Math.floor(seconds / 3600)} h${minutes ? ` ${minutes} min` : ""}`;
  };
  const relative = (time) => {
    const seconds = (Date.now() + shift - time) / 1000;
    if (Math.abs(seconds) >= 86400) return day.format(time);
    if (Math.abs(seconds) < 2) return "now";
    return seconds > 0 ? `${length(seconds)} ago` : `in ${length(-seconds)}`;
  };
  const FORMS = { second: (time) => clock.format(time), minute: (time) => minute.format(time), day: (time) => day.format(time) };
  const show = (element) => {
    const time = new Date(element.dateTime);
    if (Number.isNaN(time.getTime())) return;
    const text = (FORMS[element.dataset.form] ?? relative)(time);
    if (element.textContent !== text) element.textContent = text;
    if (!element.dataset.local) {
      element.dataset.local = "yes";
      element.title = `${exact.format(time)} · ${element.title}`;
    }
  };
  const times = (root = document) => all("time[datetime]", root).forEach(show);
  setInterval(() => { if (!document.hidden) times(); }, 5000);

  const say = (text) => {
    one(".toast[data-made]")?.remove();
    const box = Object.assign(document.createElement("p"), { className: "toast", textContent: text });
    box.dataset.made = "yes";
    box.setAttribute("role", "status");
    document.body.append(box);
    setTimeout(() => box.remove(), 4000);
  };

  // Charts: the numbers of the step below the pointer, or of the one that the arrow keys lead to.
  const tip = Object.assign(document.createElement("div"), { className: "tip" });
  tip.setAttribute("role", "status");
  const step = (figure) => Number(figure.dataset.at ?? Infinity);
  const steps = (figure) => Math.max(1, ...JSON.parse(figure.dataset.values).map((series) => series.length));
  const tell = (figure, wanted) => {
    const [names, values] = [JSON.parse(figure.dataset.names), JSON.parse(figure.dataset.values)];
    const [begin, long] = [Number(figure.dataset.t0), Number(figure.dataset.step)];
    const count = steps(figure);
    const index = Math.max(0, Math.min(count - 1, wanted));
    figure.dataset.at = index;
    const from = begin + index * long;
    const parts = names.map((name, series) => [name, values[series][index]]).filter(([, value]) => value);
    const told = parts.map(([name, value]) => `${name} ${value.toLocaleString()}`).join(" · ") || "nothing";
    const form = long >= 3600_000 ? day : minute;
    if (tip.parentElement !== figure) figure.append(tip);
    tip.textContent = `${form.format(from)} – ${minute.format(from + long)}  ${told}`;
    tip.style.display = "block";
    const box = one("svg", figure).getBoundingClientRect();
    const own = figure.getBoundingClientRect();
    const middle = box.left - own.left + (index + 0.5) * box.width / count;
    tip.style.left = `${Math.max(0, Math.min(own.width - tip.offsetWidth, middle - tip.offsetWidth / 2))}px`;
  };
  const hush = () => { tip.style.display = "none"; };
  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.("figure[data-values] svg");
    if (!plot) { if (!document.activeElement?.matches("figure[data-values]")) hush(); return; }
    const figure = plot.closest("figure");
    const box = plot.getBoundingClientRect();
    tell(figure, Math.floor((event.clientX - box.left) / box.width * steps(figure)));
  });
  document.addEventListener("focusin", (event) => {
    if (event.target.matches?.("figure[data-values]:focus-visible")) tell(event.target, step(event.target));
    else hush();
  });
  const arrow = (event) => {
    const figure = event.target.closest?.("figure[data-values]");
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!figure || !by) return false;
    event.preventDefault();
    tell(figure, step(figure) + by);
    return true;
  };

  const copy = async (button) => {
    const text = button.dataset.copy ?? one("pre", button.parentElement).textContent;
    try { await navigator.clipboard.writeText(text); say("Copied."); } catch { say("The browser refused to copy."); }
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-copy],[data-copy-of],[data-open]");
    if (!button) return;
    if (button.dataset.open) document.getElementById(button.dataset.open).showModal();
    else copy(button);
  });

  // Keys. A row's link is the first of the row.
  let going = 0;
  const row = (by) => {
    const links = all("main tbody tr").map((line) => one("a[href]", line)).filter((link) => link?.checkVisibility());
    if (!links.length) return;
    const here = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
    links[Math.max(0, Math.min(links.length - 1, here < 0 ? 0 : here + by))].focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || arrow(event)) return;
    if (event.target.closest?.("input,textarea,select,dialog")) return;
    const go = Date.now() - going < 1500 && one(`[data-go="${CSS.escape(event.key)}"]`);
    going = event.key === "g" ? Date.now() : 0;
    if (go) location.assign(go.dataset.url);
    else if (event.key === "/") {
      event.preventDefault();
      const nav = document.getElementById("nav");
      if (!nav.checkVisibility()) nav.showPopover();
      one(".find input", nav)?.focus();
    } else if (event.key === "?") one("#shortcuts")?.showModal();
    else if (event.key === "j") row(1);
    else if (event.key === "k") row(-1);
    else if (event.key === "Escape") hush();
  });

  // What an element was before is, in a newer state, the one with its id, or the same in turn of those of its kind that
  // lead to the same and have the same name.
  const twin = (element, old, next) => {
    if (element === old) return next;
    if (element.id) return one(`#${CSS.escape(element.id)}`, next);
    const alike = (other) => ["class", "href", "aria-label"].every((name) => other.getAttribute(name) === element.getAttribute(name));
    const [before, after] = [old, next].map((root) => all(element.localName, root).filter(alike));
    return after[before.indexOf(element)];
  };

  // A newer state takes the place of an element. The focus, what is open, and how far it is scrolled stay.
  const put = (id, html) => {
    const old = document.getElementById(id);
    if (!old) return;
    const made = document.createElement("template");
    made.innerHTML = html;
    const next = made.content.firstElementChild;
    if (!next) return;
    times(next);
    const kept = (selector, keep) => {
      for (const element of all(selector, old)) {
        const same = twin(element, old, next);
        if (same) keep(same, element);
      }
    };
    kept("details", (same, was) => { same.open = was.open; });
    kept("figure[data-at]", (same, was) => { same.dataset.at = was.dataset.at; });
    const scrolled = [];
    kept("[tabindex]", (same, { scrollLeft, scrollTop }) => scrolled.push([same, scrollLeft, scrollTop]));
    const held = old.contains(document.activeElement) ? document.activeElement : null;
    const focused = held && twin(held, old, next);
    old.replaceWith(next);
    for (const [region, left, top] of scrolled) if (left || top) region.scrollTo(left, top);
    if (!held) return;
    if (!focused || focused === next) next.tabIndex = -1;
    (focused ?? next).focus({ preventScroll: true });
  };

  const stale = (is, why = "note") => {
    const note = document.getElementById("stale");
    if (note) {
      note.hidden = !is;
      for (const text of all("[data-why]", note)) text.hidden = text.dataset.why !== why;
    }
    const live = document.getElementById("live");
    if (live) live.hidden = is;
  };

  // Parts of the page come anew while it is looked at: a hidden page has no reader, and a look may cost money.
  const follow = (page) => {
    let source = null;
    let isOver = false;
    const start = () => {
      source = new EventSource(`/live?page=${encodeURIComponent(page)}`);
      source.addEventListener("now", (message) => { at(message.data); stale(false); });
      source.addEventListener("part", (message) => {
        const { id, html } = JSON.parse(message.data);
        put(id, html);
      });
      source.addEventListener("problem", () => stale(true));
      source.addEventListener("gone", () => { isOver = true; source.close(); stale(true, "gone"); });
      source.addEventListener("over", () => {
        isOver = true;
        source.close();
        stale(false);
        document.getElementById("live")?.remove();
      });
      source.onerror = () => stale(true, source.readyState === EventSource.CLOSED ? "closed" : "note");
    };
    document.addEventListener("visibilitychange", () => {
      if (isOver) return;
      if (!document.hidden) { if (source === null) start(); return; }
      source?.close();
      source = null;
    });
    if (!document.hidden) start();
  };

  // The live tail. Streams begin a little before where they were, and lines may be found late: each is shown once, at
  // its time.
  const LINES_MAX = 500;
  const tail = (list) => {
    const state = document.getElementById("tail-state");
    const pause = document.getElementById("tail-pause");
    const words = document.getElementById("tail-words");
    let source = null;
    let last = list.dataset.from;
    const chips = all("[data-only]");
    const filter = (line) => {
      const { chip } = line.dataset;
      const isOff = chips.some((one) => one.dataset.only === chip && one.ariaPressed === "false");
      line.hidden = chip !== undefined && (isOff || !line.textContent.toLowerCase().includes(words.value.toLowerCase()));
    };
    const count = () => {
      for (const one of chips) one.lastElementChild.textContent = all(`[data-chip="${one.dataset.only}"]`, list).length;
    };
    const add = (line) => {
      if (line.over) document.getElementById(line.over)?.remove();
      if (document.getElementById(line.id)) return;
      const made = document.createElement("template");
      made.innerHTML = line.html;
      const row = made.content.firstElementChild;
      const older = [...list.children].find((item) => Number(item.dataset.at) <= line.at);
      list.insertBefore(row, older ?? null);
      while (list.children.length > LINES_MAX) list.lastElementChild.remove();
      times(row);
      filter(row);
      count();
      document.getElementById("tail-empty")?.remove();
    };
    const say = (text, isLive = false) => {
      state.textContent = text;
      state.classList.toggle("lv", isLive);
    };
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
      source.onopen = () => say("Live", true);
      source.addEventListener("attempt", (message) => {
        last = message.lastEventId || last;
        add(JSON.parse(message.data));
      });
      source.addEventListener("position", (message) => { last = message.lastEventId || last; });
      source.addEventListener("gap", (message) => add(JSON.parse(message.data)));
      source.addEventListener("part", (message) => { const { id, html } = JSON.parse(message.data); put(id, html); });
      source.addEventListener("problem", (message) => stop(JSON.parse(message.data)));
      source.onerror = () => {
        if (source.readyState === EventSource.CONNECTING) say("The connection is lost; trying again.");
        else stop("The stream has ended: the console was ended, or this browser is not signed in. Nothing is tried again.");
      };
    };
    pause.hidden = false;
    pause.addEventListener("click", () => { if (source !== null) stop("Paused."); else start(); });
    words.addEventListener("input", () => [...list.children].forEach(filter));
    for (const one of chips) {
      one.addEventListener("click", () => {
        one.ariaPressed = String(one.ariaPressed === "false");
        [...list.children].forEach(filter);
      });
    }
    count();
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

  // What was typed is asked about while one types: problems come and go below their fields.
  const marked = () => {
    for (const place of all("[data-problem-of]")) {
      const field = document.getElementById(place.dataset.problemOf);
      if (place.textContent.trim()) field?.setAttribute("aria-invalid", "true");
      else field?.removeAttribute("aria-invalid");
    }
  };
  const preview = (form) => {
    let waits = 0;
    let asked = 0;
    const ask = async () => {
      asked += 1;
      const mine = asked;
      try {
        const body = new URLSearchParams(new FormData(form));
        const answer = await fetch(form.dataset.preview, { method: "POST", body });
        const text = await answer.text();
        if (mine !== asked) return;
        if (!answer.ok) throw new Error(answer.status);
        const page = new DOMParser().parseFromString(text, "text/html");
        for (const id of form.dataset.parts.split(" ")) put(id, page.getElementById(id)?.outerHTML ?? "");
        marked();
        stale(false);
      } catch { if (mine === asked) stale(true); }
    };
    form.addEventListener("input", () => { clearTimeout(waits); waits = setTimeout(ask, 400); });
  };

  document.addEventListener("change", (event) => { if (event.target.matches?.("form[data-choose] select")) event.target.form.requestSubmit(); });

  document.addEventListener("DOMContentLoaded", () => {
    document.documentElement.classList.add("js");
    at(document.body.dataset.now);
    times();
    for (const form of all("form[data-preview]")) preview(form);
    const toast = one(".toast");
    if (toast) setTimeout(() => toast.remove(), 8000);
    if (document.body.dataset.live) follow(document.body.dataset.live);
    const lines = one("[data-stream]");
    if (lines) tail(lines);
  });
})();
