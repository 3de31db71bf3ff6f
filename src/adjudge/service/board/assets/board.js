// What makes the page quick: live figures, forms without a reload, and keys. Everything works without it, too.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  let busy = false; // a form is on its way
  let position = -1; // of the last change that this page shows

  // --- pages

  const notice = (text, link) => {
    const place = find("#notice");
    place.replaceChildren(text);
    if (link) place.append(" ", link);
    clearTimeout(notice.timer);
    if (text && !link) notice.timer = setTimeout(() => place.replaceChildren(), 6000);
  };

  const signIn = () => {
    const link = document.createElement("a");
    link.href = "/sign-in?next=" + encodeURIComponent(location.pathname + location.search);
    link.textContent = "Sign in again";
    notice("Your session has ended.", link);
  };

  const load = async (url, options) => {
    const response = await fetch(url, { credentials: "same-origin", ...options });
    const isOut = response.status === 401 || new URL(response.url).pathname === "/sign-in";
    if (isOut && location.pathname !== "/sign-in") {
      signIn();
      return null;
    }
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    return { page, url: response.url, status: response.status };
  };

  const swap = (got, { keep = false, focus = true } = {}) => {
    const fresh = find("#main", got.page);
    if (!fresh) return;
    const open = all("#main details[open] > summary").map((summary) => summary.textContent);
    find("#main").replaceWith(document.adoptNode(fresh));
    document.title = got.page.title;
    if (keep) {
      for (const details of all("#main details")) {
        if (open.includes(find("summary", details)?.textContent)) details.open = true;
      }
    }
    if (focus) find("#main").focus({ preventScroll: true });
    ready();
  };

  const go = async (url, options = {}) => {
    if (busy) return;
    busy = true;
    try {
      const got = await load(url, options.request);
      if (!got) return;
      swap(got, options);
      const there = new URL(got.url);
      const here = there.pathname + there.search;
      if (got.status < 400 && here !== location.pathname + location.search) history.pushState(null, "", here);
      if (!options.keep) scrollTo(0, 0);
    } catch {
      notice("The service did not answer: nothing was done. Try again.");
    } finally {
      busy = false;
    }
  };

  addEventListener("popstate", () => go(location.href));

  // --- forms: what they answer takes the place of the page

  document.addEventListener("submit", (event) => {
    const form = event.target;
    const to = form.getAttribute("action"); // a button may be called "action", and hide the property
    if (form.getAttribute("method") !== "post" || form.hasAttribute("data-plain") || !to.startsWith("/c/")) return;
    event.preventDefault();
    if (busy) return;
    event.submitter?.classList.add("busy");
    const body = new URLSearchParams(new FormData(form, event.submitter));
    go(to, { request: { method: "POST", body } }).finally(() => event.submitter?.classList.remove("busy"));
  });

  // --- keys

  const press = (key) => {
    const target = all("[data-key]").find((one) => one.dataset.key === key && !one.disabled);
    if (!target) return false;
    target.click();
    return true;
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const field = event.target.closest("input, textarea, select, [contenteditable]");
    if (field) {
      if (event.key === "Escape") field.blur();
      return;
    }
    if (event.key === "/") {
      find("#find")?.focus();
      event.preventDefault();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const rows = all("table.rows tbody a:first-of-type").filter((one) => one.closest("th"));
      const at = rows.indexOf(document.activeElement);
      if (at < 0) return;
      rows[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
      event.preventDefault();
    } else if (!event.repeat && event.key.length === 1 && press(event.key)) {
      event.preventDefault();
    }
  });

  document.addEventListener("click", (event) => {
    const help = event.target.closest("[data-help]");
    if (help) {
      const keys = find("#keys");
      keys.hidden = !keys.hidden;
      help.setAttribute("aria-expanded", String(!keys.hidden));
      return;
    }
    const skip = event.target.closest("a[data-key]");
    if (skip && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      go(skip.href);
    }
  });

  // --- a policy is checked as it is typed

  let typing = 0;
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-check]");
    if (!form || !find("button[value=check]", form)) return;
    clearTimeout(typing);
    typing = setTimeout(async () => {
      const body = new URLSearchParams(new FormData(form));
      body.set("action", "check");
      try {
        const got = await load(form.getAttribute("action"), { method: "POST", body });
        const verdict = got && find("#verdict", got.page);
        if (verdict) find("#verdict").replaceWith(document.adoptNode(verdict));
      } catch {
        notice("The service does not answer.");
      }
    }, 400);
  });

  // --- live

  let lastEvent = 0;
  let stream = null;
  let waiting = null; // number of tasks that need a person when this page was shown
  let refreshing = 0;

  const state = (kind, text) => {
    const place = find("#live");
    if (!place) return;
    place.className = "live " + kind;
    const at = lastEvent ? new Date(lastEvent).toLocaleTimeString() : "";
    const label = find("[data-live-text]", place);
    if (label.textContent !== text) label.textContent = text;
    place.title = at ? "Last event at " + at : "No event yet";
  };

  const refresh = (delay) => {
    if (refreshing || !find("[data-refresh]")) return;
    refreshing = setTimeout(async () => {
      refreshing = 0;
      if (busy || document.hidden) return;
      try {
        const got = await load(location.href);
        const fresh = got && find("[data-refresh]", got.page);
        const old = find("[data-refresh]");
        if (fresh && old && !old.contains(document.activeElement)) old.replaceWith(document.adoptNode(fresh));
      } catch {
        // The stream says that the service is away.
      }
    }, delay);
  };

  const reload = (text, place) => {
    const again = document.createElement("button");
    again.type = "button";
    again.textContent = text;
    again.addEventListener("click", () => go(location.href));
    place.replaceChildren(again);
    place.hidden = false;
  };

  const changed = (told) => {
    position = told.position;
    const badge = find("[data-count]");
    if (badge) {
      badge.hidden = !told.waiting;
      badge.textContent = told.waiting ? "(" + told.waiting + ")" : "";
    }
    if (waiting === null) waiting = told.waiting;
    const news = find("[data-news]");
    const card = find("[data-task]");
    if (news && card && told.tasks.includes(card.dataset.task)) {
      reload("This task has changed: show it", news);
    } else if (news && told.waiting > waiting) {
      reload(told.waiting - waiting + " new", news);
    } else if (news && !card && told.waiting) {
      reload(told.waiting + " waiting: show", news);
    }
    const banner = find("[data-changed]");
    if (banner && told.tasks.includes(banner.dataset.changed)) banner.hidden = false;
    refresh(1000);
  };

  const listen = () => {
    const address = document.body.dataset.live;
    if (!address) return;
    const source = new EventSource(address);
    stream = source;
    let wasAway = false;
    const heard = () => {
      lastEvent = Date.now();
      state("on", "live");
    };
    source.addEventListener("open", () => {
      heard();
      if (wasAway) refresh(0);
      wasAway = false;
    });
    source.addEventListener("change", (event) => {
      heard();
      changed(JSON.parse(event.data));
    });
    source.addEventListener("alive", heard);
    for (const ending of ["expired", "unauthorized"]) {
      source.addEventListener(ending, () => {
        source.close();
        state("off", "signed out");
        signIn();
      });
    }
    source.addEventListener("stopping", () => {
      wasAway = true;
      state("off", "reconnecting");
    });
    source.addEventListener("error", () => {
      if (source !== stream) return;
      wasAway = true;
      if (source.readyState !== EventSource.CLOSED) {
        state("off", "reconnecting");
        return;
      }
      state("off", "offline");
      setTimeout(async () => {
        try {
          if (await load(location.href)) listen();
        } catch {
          listen();
        }
      }, 3000);
    });
  };

  // A browser has few connections per server: a page that nobody sees gives its own back.
  let leaving = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(leaving);
    if (document.hidden) {
      leaving = setTimeout(() => {
        stream?.close();
        stream = null;
        state("off", "paused");
      }, 5000);
    } else if (!stream) {
      listen();
      refresh(0);
    }
  });

  // --- what a page needs once it is there

  const ready = () => {
    waiting = null;
    if (find("[data-poll]")) setTimeout(() => find("[data-poll]") && go(location.href, { keep: true, focus: false }), 700);
    const onward = find("a[data-continue]");
    if (onward) {
      // A link from elsewhere does not carry the session, and a request from here does.
      load(onward.href).then((got) => got && got.status < 400 && new URL(got.url).pathname !== "/sign-in" && location.replace(onward.href))
        .catch(() => {});
    }
  };

  ready();
  listen();
})();
