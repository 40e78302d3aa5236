"use strict";
// Times in the reader's zone, charts' numbers, copying, keys, previews, and parts that come anew. What comes from
// elsewhere goes in as text; HTML comes from this console alone.
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);

  // Relative times begin with the deployment's clock, which may be a fast one, or with this machine's.
  let shift = 0;
  const at = (now) => { if (now) shift = Number(now) - Date.now(); };
  const MINUTE = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const format = (parts) => new Intl.DateTimeFormat(undefined, parts);
  const exact = format({ dateStyle: "medium", timeStyle: "long" });
  const FORMS = {
    day: format({ ...MINUTE, day: "numeric", month: "short" }),
    minute: format(MINUTE),
    second: format({ ...MINUTE, second: "2-digit" }),
  };
  const length = (seconds) => {
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    if (!hours) return minutes ? `${minutes} min` : `${Math.floor(seconds)} s`;
    return `${hours} h${minutes ? ` ${minutes} min` : ""}`;
  };
  const relative = (time) => {
    const seconds = (Date.now() + shift - time) / 1000;
    if (Math.abs(seconds) >= 86400) return FORMS.day.format(time);
    if (Math.abs(seconds) < 2) return "now";
    return seconds > 0 ? `${length(seconds)} ago` : `in ${length(-seconds)}`;
  };
  const show = (element) => {
    const time = new Date(element.dateTime);
    if (Number.isNaN(time.getTime())) return;
    const text = FORMS[element.dataset.form]?.format(time) ?? relative(time);
    if (element.textContent !== text) element.textContent = text;
    if (element.dataset.local) return;
    element.dataset.local = "yes";
    element.title = `${exact.format(time)} · ${element.title}`;
  };
  const times = (root = document) => all("time[datetime]", root).forEach(show);
  setInterval(() => { if (!document.hidden) times(); }, 5000);

  const make = (name, members) => Object.assign(document.createElement(name), members);
  const fade = (toast) => setTimeout(() => toast?.remove(), 6000);
  const say = (text) => {
    one(".toast")?.remove();
    const toast = make("p", { className: "toast", role: "status", textContent: text });
    document.body.append(toast);
    fade(toast);
  };

  // Charts: the numbers of the step below the pointer, or of the one that the arrow keys lead to.
  const FIGURE = "figure[data-values]";
  const tip = make("div", { className: "tip", role: "status" });
  const hush = () => { tip.hidden = true; };
  const step = (figure) => Number(figure.dataset.at ?? Infinity);
  const tell = (figure, wanted) => {
    const { dataset } = figure;
    const [names, values, long] = [JSON.parse(dataset.names), JSON.parse(dataset.values), Number(dataset.step)];
    const count = Math.max(1, Number(dataset.steps));
    const longest = Math.max(...values.map(({ length }) => length));
    const index = Math.max(0, Math.min(longest - 1, wanted(count)));
    dataset.at = index;
    const from = Number(dataset.t0) + index * long;
    const parts = names.map((name, series) => [name, values[series][index]]).filter(([, value]) => value);
    const told = parts.map(([name, value]) => `${name} ${value.toLocaleString()}`).join(" · ") || "nothing";
    const form = long >= 3600_000 ? FORMS.day : FORMS.minute;
    if (tip.parentElement !== figure) figure.append(tip);
    tip.textContent = `${form.format(from)} – ${FORMS.minute.format(from + long)}  ${told}`;
    tip.hidden = false;
    const [box, own] = [one("svg", figure), figure].map((element) => element.getBoundingClientRect());
    const left = box.left - own.left + (index + 0.5) * box.width / count - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(0, Math.min(own.width - tip.offsetWidth, left))}px`;
  };
  document.addEventListener("pointermove", ({ target, clientX }) => {
    const plot = target.closest?.(`${FIGURE} svg`);
    const box = plot?.getBoundingClientRect();
    if (plot) tell(plot.closest("figure"), (count) => Math.floor((clientX - box.left) / box.width * count));
    else if (!document.activeElement?.matches(FIGURE)) hush();
  });
  document.addEventListener("focusin", ({ target }) => {
    if (target.matches?.(`${FIGURE}:focus-visible`)) tell(target, () => step(target));
    else hush();
  });
  const arrow = (event) => {
    const figure = event.target.closest?.(FIGURE);
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!figure || !by) return false;
    event.preventDefault();
    tell(figure, () => step(figure) + by);
    return true;
  };

  const copy = async (button) => {
    const text = button.dataset.copy ?? one("pre", button.parentElement).textContent;
    try { await navigator.clipboard.writeText(text); say("Copied."); } catch { say("The browser refused to copy."); }
  };
  document.addEventListener("click", ({ target }) => {
    const button = target.closest?.("[data-copy],[data-copy-of],[data-open]");
    if (button?.dataset.open) byId(button.dataset.open).showModal();
    else if (button) copy(button);
  });

  // Keys. A row's link is the first of the row.
  let going = 0;
  const row = (by) => {
    const links = all("main tbody tr").map((line) => one("a[href]", line)).filter((link) => link?.checkVisibility());
    const here = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
    links[Math.max(0, Math.min(links.length - 1, here < 0 ? 0 : here + by))]?.focus();
  };
  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || arrow(event)) return;
    if (target.closest?.("input,textarea,select,dialog")) return;
    const go = Date.now() - going < 1500 && one(`[data-go="${CSS.escape(key)}"]`);
    going = key === "g" ? Date.now() : 0;
    if (go) location.assign(go.dataset.url);
    else if (key === "/") {
      event.preventDefault();
      if (!byId("nav").checkVisibility()) byId("nav").showPopover();
      one(".find input").focus();
    } else if (key === "?") byId("shortcuts").showModal();
    else if (key === "j") row(1);
    else if (key === "k") row(-1);
    else if (key === "Escape") hush();
  });

  // What an element was before is, in a newer state, the one with its id, or the same in turn of those of its kind
  // that lead to the same and have the same name.
  const twin = (element, old, next) => {
    if (element === old) return next;
    if (element.id) return one(`#${CSS.escape(element.id)}`, next);
    const alike = (other) => ["class", "href", "aria-label"]
      .every((name) => other.getAttribute(name) === element.getAttribute(name));
    const [before, after] = [old, next].map((root) => all(element.localName, root).filter(alike));
    return after[before.indexOf(element)];
  };

  // A newer state takes the place of an element. The focus, what is open, and how far it is scrolled stay.
  const put = (next) => {
    const old = next && byId(next.id);
    if (!old) return;
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

  // Says why the page is not up to date, or that it is.
  const stale = (why) => {
    byId("stale").hidden = !why;
    for (const text of all("[data-why]")) text.hidden = text.dataset.why !== why;
    byId("live")?.toggleAttribute("hidden", Boolean(why));
  };

  const element = (html) => make("template", { innerHTML: html }).content.firstElementChild;

  // Parts of the page come anew while it is looked at: a hidden page has no reader, and a look may cost money.
  const follow = () => {
    let source = null;
    let isOver = false;
    const end = (why) => {
      isOver = true;
      source.close();
      stale(why);
    };
    const look = () => {
      if (isOver) return;
      source?.close();
      if (document.hidden) return;
      source = new EventSource(`/live?page=${encodeURIComponent(location.pathname + location.search)}`);
      const on = (name, does) => source.addEventListener(name, ({ data }) => does(data));
      on("now", (now) => { at(now); stale(""); });
      on("part", (html) => put(element(JSON.parse(html))));
      on("problem", () => stale("note"));
      on("gone", () => end("gone"));
      on("over", () => { end(""); byId("live").remove(); });
      source.onerror = ({ target }) => stale(target.readyState === EventSource.CLOSED ? "closed" : "note");
    };
    document.addEventListener("visibilitychange", look);
    look();
  };

  // The live tail. Streams begin a little before where they were, and lines may be found late: each is shown once, at
  // its time.
  const LINES_MAX = 500;
  const tail = (list) => {
    const [state, pause, words] = ["state", "pause", "words"].map((name) => byId(`tail-${name}`));
    const chips = all("[data-only]");
    let source = null;
    let last = list.dataset.from;
    const refresh = () => {
      const off = chips.filter(({ ariaPressed }) => ariaPressed === "false").map(({ dataset }) => dataset.only);
      const wanted = words.value.toLowerCase();
      for (const line of list.children) {
        const { chip } = line.dataset;
        const has = line.textContent.toLowerCase().includes(wanted);
        line.hidden = chip !== undefined && (off.includes(chip) || !has);
      }
      for (const { dataset, lastElementChild } of chips) {
        lastElementChild.textContent = all(`[data-chip="${dataset.only}"]`, list).length;
      }
    };
    let due = 0;
    const refreshSoon = () => { cancelAnimationFrame(due); due = requestAnimationFrame(refresh); };
    const add = ({ html, over }) => {
      if (over) byId(over)?.remove();
      const line = element(html);
      if (byId(line.id)) return;
      const isOlder = ({ dataset }) => Number(dataset.at) <= Number(line.dataset.at);
      const next = [...list.children].find(isOlder);
      // The page has said that what was before its first lines is not shown.
      if (!next && list.lastElementChild?.id.startsWith("gap-")) return;
      list.insertBefore(line, next ?? null);
      while (list.children.length > LINES_MAX) list.lastElementChild.remove();
      times(line);
      refreshSoon();
      byId("tail-empty")?.remove();
    };
    const tells = (text, isLive = false) => {
      state.textContent = text;
      state.classList.toggle("lv", isLive);
    };
    const stop = (text) => {
      source.close();
      source = null;
      pause.textContent = "Go on";
      tells(text);
    };
    const start = () => {
      const url = new URL(list.dataset.stream, location.href);
      url.searchParams.set("from", last);
      source = new EventSource(url);
      pause.textContent = "Pause";
      source.onopen = () => tells("Live", true);
      const on = (name, does) => source.addEventListener(name, ({ data, lastEventId }) => {
        last = lastEventId || last;
        does(JSON.parse(data));
      });
      for (const name of ["attempt", "gap"]) on(name, add);
      on("position", () => {});
      on("part", (html) => put(element(html)));
      on("problem", stop);
      source.onerror = () => {
        if (source.readyState === EventSource.CONNECTING) tells("The connection is lost; trying again.");
        else {
          stop("The stream has ended: the console was ended, or this browser is not signed in. "
            + "Nothing is tried again.");
        }
      };
    };
    pause.hidden = false;
    pause.addEventListener("click", () => { if (source) stop("Paused."); else start(); });
    words.addEventListener("input", refreshSoon);
    for (const chip of chips) {
      chip.addEventListener("click", () => {
        chip.ariaPressed = String(chip.ariaPressed === "false");
        refreshSoon();
      });
    }
    refresh();
    let waits = true;
    const look = () => {
      if (document.hidden && source) stop("Paused while the page is hidden.");
      else if (!document.hidden && waits) start();
      else return;
      waits = document.hidden;
    };
    document.addEventListener("visibilitychange", look);
    look();
  };

  // What was typed is asked about while one types: problems come and go below their fields.
  const preview = (form) => {
    let waits = 0;
    let asked = 0;
    const ask = async () => {
      asked += 1;
      const mine = asked;
      const isLatest = () => mine === asked;
      try {
        const body = new URLSearchParams(new FormData(form));
        const answer = await fetch(form.dataset.preview, { method: "POST", body });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (!isLatest()) return;
        if (!answer.ok) throw new Error(answer.status);
        for (const id of form.dataset.parts.split(" ")) put(page.getElementById(id));
        for (const place of all("[data-problem-of]")) {
          const field = byId(place.dataset.problemOf);
          if (place.textContent.trim()) field?.setAttribute("aria-invalid", "true");
          else field?.removeAttribute("aria-invalid");
        }
        stale("");
      } catch { if (isLatest()) stale("note"); }
    };
    form.addEventListener("input", () => { clearTimeout(waits); waits = setTimeout(ask, 400); });
  };

  document.addEventListener("change", ({ target }) => {
    if (target.matches?.("form[data-choose] select")) target.form.requestSubmit();
  });

  document.addEventListener("DOMContentLoaded", () => {
    const { dataset } = document.body;
    document.documentElement.classList.add("js");
    at(dataset.now);
    times();
    all("form[data-preview]").forEach(preview);
    fade(one(".toast"));
    if ("live" in dataset) follow();
    const lines = one("[data-stream]");
    if (lines) tail(lines);
  });
})();
