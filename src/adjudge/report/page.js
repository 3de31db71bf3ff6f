"use strict";
// The page works without this script; it adds the worker that is looked at, the search, and what stands under the pointer.
// Names are data: they are written as text alone, never as markup.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const root = document.documentElement;
  root.classList.add("js");
  const known = document.getElementById("page-data");
  if (!known) return;
  const data = JSON.parse(known.textContent);
  const panel = document.getElementById("worker-detail");
  const plot = document.getElementById("workers-plot");
  const list = document.getElementById("worker-list");

  function element(kind, text, style) {
    const made = document.createElement(kind);
    if (text !== undefined && text !== null) made.textContent = text;
    if (style) made.className = style;
    return made;
  }
  function drawn(kind, attributes) {
    const made = document.createElementNS(SVG, kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }
  function percent(share) {
    if (share === null || share === undefined) return "–";
    const p = 100 * share;
    return (p > 99 && p < 100) || (p > 0 && p < 1) ? p.toFixed(1) + "%" : p.toFixed(0) + "%";
  }
  function level(share) {
    return share <= 0 ? 0 : Math.min(Math.max(Math.round(share * 10), 1), 10);
  }
  function shortened(text, width) {
    if (text.length <= width) return text;
    const head = Math.floor(width / 2);
    return text.slice(0, head) + "…" + text.slice(text.length - (width - 1 - head));
  }
  function table(heads, rows, numbers) {
    const made = element("table");
    const head = made.createTHead().insertRow();
    heads.forEach((what, at) => {
      const cell = element("th", what, at >= heads.length - numbers ? "n" : "");
      cell.scope = "col";
      head.append(cell);
    });
    const body = made.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((value, at) => {
        const cell = element(at ? "td" : "th", value, at >= heads.length - numbers ? "n" : "");
        if (!at) cell.scope = "row";
        line.append(cell);
      });
    }
    return made;
  }
  function scrolled(content, label) {
    const box = element("div", null, "scroll");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", label);
    box.append(content);
    return box;
  }

  const longest = Math.max(0, ...data.labels.map((name) => name.length));
  function labelled(c, width) {
    return (longest > 24 && data.labels.length <= 20 ? c + 1 + " " : "") + shortened(data.labels[c], width);
  }
  function confusion(worker) {
    const names = data.labels, k = names.length;
    const title = data.against === "true" ? "true label" : "chosen label";
    if (k > 20) {
      const rows = worker.cells.map(([t, g, n]) => [names[t], names[g], n]);
      return rows.length ? table([title, "called", "votes"], rows, 1) : element("p", "Every vote equals the label of its task.");
    }
    const counts = names.map(() => new Array(k).fill(0));
    for (const [t, g, n] of worker.cells) counts[t][g] = n;
    const made = element("table", null, "heat");
    const long = longest > 10;
    const head = made.createTHead().insertRow();
    head.append(element("td", (data.against === "true" ? "true" : "chosen") + " ↓ given →", "nodata"));
    [...names, "votes"].forEach((name, at) => {
      const cell = element("th", long && at < k ? at + 1 : name);
      cell.scope = "col";
      cell.title = name;
      head.append(cell);
    });
    const body = made.createTBody();
    names.forEach((name, t) => {
      const line = body.insertRow();
      const beside = element("th", longest > 24 ? t + 1 : long ? t + 1 + " " + name : name);
      beside.scope = "row";
      beside.title = name;
      line.append(beside);
      const support = counts[t].reduce((sum, n) => sum + n, 0);
      counts[t].forEach((n, g) => {
        const share = support ? n / support : 0;
        const kind = support ? "h" + level(share) + (t === g ? " diag" : "") : "nodata";
        line.append(element("td", support ? (100 * share).toFixed(0) + "%" : "–", kind));
      });
      line.append(element("td", support, "n"));
    });
    return made;
  }

  function badge(verdict) {
    const made = element("span", null, "badge");
    const sample = document.getElementById("m-" + data.shapes[verdict]);
    const mark = drawn("svg", { viewBox: "-7 -7 14 14", width: 14, height: 14, class: "v-" + verdict, "aria-hidden": "true" });
    mark.append(sample.cloneNode());
    mark.firstChild.removeAttribute("id");
    made.append(mark, verdict);
    return made;
  }

  function show(code, described) {
    const worker = data.workers[code];
    panel.replaceChildren();
    document.querySelectorAll("#worker-list tr.on").forEach((row) => row.classList.remove("on"));
    mark(code);
    if (!worker) {
      panel.append(element("h3", described.split(":")[0]), element("p", described), element("p", data.beyond, "small"));
      return;
    }
    const row = list && list.querySelector('tr[data-w="' + code + '"]');
    if (row) row.classList.add("on");
    panel.append(element("h3", worker.name));
    const first = element("p");
    if (worker.verdict) first.append(badge(worker.verdict), worker.why ? ": " + worker.why + "." : ".");
    if (first.childNodes.length) panel.append(first);
    const facts = [[data.noun + "s", worker.votes]];
    if (worker.accuracy !== null) {
      const span = worker.accuracy_low === null ? "" : " (" + percent(worker.accuracy_low) + " to " + percent(worker.accuracy_high) + ")";
      facts.push(["accuracy, expected", percent(worker.accuracy) + span]);
    }
    if (worker.real) facts.push(["accuracy by truth", percent(worker.real[0] / worker.real[1]) + " of " + worker.real[1]]);
    if (worker.agreement !== null) facts.push(["equal to the labels", percent(worker.agreement)]);
    if (worker.others !== null) facts.push(["agree with it", percent(worker.others) + " of other votes (of all: " + percent(data.others) + ")"]);
    if (worker.like) facts.push(["answers like", worker.like]);
    if (worker.group) facts.push(["votes in group", worker.group]);
    const columns = element("div", null, "cols");
    const left = element("div"), right = element("div");
    left.append(table(["", ""], facts, 0));
    left.querySelector("thead").remove();
    left.append(element("h3", "What it confuses"), scrolled(confusion(worker), "Confusion of " + worker.name));
    right.append(element("h3", "Bias: what it gives, and what its tasks have"));
    const bias = worker.bias.map(([c, g, e]) => [labelled(c, 80), percent(g), percent(e)]);
    right.append(table(["label", "given", "expected"], bias, 2));
    if (worker.partners.length) {
      right.append(element("h3", "Whom it agrees with most"));
      const rows = worker.partners.map(([name, kappa, same, shared]) => [shortened(name, 40), kappa.toFixed(2), percent(same), shared]);
      right.append(scrolled(table(["worker", "beyond chance", "same answer", "shared tasks"], rows, 3), "Agreement of " + worker.name));
    }
    columns.append(left, right);
    panel.append(columns);
  }

  // The dots: one stop of the Tab key, arrows go from dot to dot, Enter shows the worker.
  const dots = plot ? [...plot.querySelectorAll(".dot")] : [];
  let current = null;
  const halo = drawn("circle", { r: 9, class: "halo" });
  function mark(code) {
    const dot = dots.find((one) => one.dataset.w === String(code));
    if (!dot) return void halo.remove();
    halo.setAttribute("cx", dot.getAttribute("x"));
    halo.setAttribute("cy", dot.getAttribute("y"));
    plot.append(halo);
  }
  function chosen(dot) {
    if (current) current.setAttribute("tabindex", "-1");
    current = dot;
    dot.setAttribute("tabindex", "0");
    show(dot.dataset.w, dot.querySelector("title").textContent);
  }
  if (dots.length) {
    dots.sort((a, b) => parseFloat(a.getAttribute("x")) - parseFloat(b.getAttribute("x")));
    plot.setAttribute("role", "group");
    dots.forEach((dot, at) => {
      dot.setAttribute("role", "button");
      dot.setAttribute("tabindex", at ? "-1" : "0");
      dot.setAttribute("aria-label", dot.querySelector("title").textContent);
    });
    current = dots[0];
    plot.addEventListener("click", (event) => {
      const dot = event.target.closest(".dot");
      if (dot) chosen(dot);
    });
    plot.addEventListener("keydown", (event) => {
      const at = dots.indexOf(document.activeElement);
      if (at < 0) return;
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        chosen(dots[at]);
        return;
      }
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      const to = event.key === "Home" ? 0 : event.key === "End" ? dots.length - 1 : step ? at + step : -1;
      if (to < 0 || to >= dots.length) return;
      event.preventDefault();
      dots[at].setAttribute("tabindex", "-1");
      dots[to].setAttribute("tabindex", "0");
      dots[to].focus();
    });
  }

  // The list: names become buttons, and the field above finds them.
  if (list) {
    for (const name of list.querySelectorAll(".who")) {
      const button = element("button", name.textContent, "who");
      button.type = "button";
      button.title = name.title;
      button.addEventListener("click", () => {
        show(name.dataset.w, "");
        panel.scrollIntoView({ block: "nearest" });
      });
      name.replaceWith(button);
    }
    const field = document.getElementById("worker-search"), hint = document.getElementById("worker-hint");
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      let left = 0;
      for (const row of list.querySelectorAll("tbody tr")) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        left += row.hidden ? 0 : 1;
      }
      hint.textContent = wanted ? left + " found" : "";
    });
  }
  const firstShown = Object.keys(data.workers).length ? data.first : null;
  if (panel && firstShown !== null) show(firstShown, "");

  // What stands under the pointer in the matrix of agreement.
  const matrix = document.getElementById("agreement-plot");
  if (matrix && data.matrix) {
    const tip = element("div", null, "tip");
    const size = data.matrix.workers.length;
    matrix.addEventListener("pointermove", (event) => {
      const box = matrix.getBoundingClientRect();
      const col = Math.floor(((event.clientX - box.left) / box.width) * size);
      const row = Math.floor(((event.clientY - box.top) / box.height) * size);
      if (row < 0 || col < 0 || row >= size || col >= size) return;
      const kappa = data.matrix.kappa[row * size + col];
      const names = shortened(data.matrix.workers[row], 40) + (row === col ? "" : " and " + shortened(data.matrix.workers[col], 40));
      tip.textContent = names + (row === col ? "" : kappa === null ? ": no shared task tells" : ": " + kappa.toFixed(2) + " beyond chance");
      tip.style.left = Math.min(event.pageX + 12, window.innerWidth - 220) + "px";
      tip.style.top = event.pageY + 14 + "px";
      document.body.append(tip);
    });
    matrix.addEventListener("pointerleave", () => tip.remove());
  }
  window.addEventListener("beforeprint", () => document.querySelectorAll("details.fold:not(.data)").forEach((one) => (one.open = true)));
})();
