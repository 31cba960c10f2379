"use strict";
// The page's controls. Whatever comes from the fit is shown by textContent.

(() => {
  const find = (id) => document.getElementById(id);
  const make = (name, text, parent) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };
  // Names are somebody's data: their direction must not reach the words around them.
  const isolate = (parent, text) => make("bdi", text, parent);
  const number = charts.number;
  const WORDS = { reward: "Reward", probability: "Probability", q: "Q" };

  let fit, state, answer, scenario;
  const inputs = [];

  async function ask(path, question) {
    const options = { cache: "no-store" };
    if (question !== undefined) {
      options.method = "POST";
      options.headers = { "Content-Type": "application/json" };
      options.body = JSON.stringify(question);
    }
    let reply;
    try {
      reply = await fetch(path, options);
    } catch {
      throw new Error("The explorer does not answer: was it ended in the terminal?");
    }
    const found = await reply.json();
    if (!reply.ok) throw new Error(found.error);
    return found;
  }

  function tell(id, text) {
    const place = find(id);
    place.hidden = !text;
    if (place.textContent !== text) place.textContent = text || "";
  }

  // ---- the state

  function addControl(column, index, parent) {
    const box = make("div", undefined, parent);
    box.className = "control";
    const id = `column-${index}`;
    const label = make("label", undefined, box);
    isolate(label, column.name);
    label.htmlFor = id;
    if (column.levels) {
      const select = make("select", undefined, box);
      select.id = id;
      column.levels.forEach((level, code) => {
        make("option", level, select).value = String(code);
      });
      select.addEventListener("change", () => change(index, Number(select.value)));
      inputs.push((value) => { select.value = String(value); });
      return;
    }
    const pair = make("div", undefined, box);
    pair.className = "pair";
    const slider = make("input", undefined, pair);
    slider.type = "range";
    slider.id = id;
    const exact = make("input", undefined, pair);
    exact.type = "number";
    exact.step = "any";
    exact.setAttribute("aria-label", `${column.name}, as a number`);
    // With few values in the data the slider visits these and nothing between.
    const few = column.values.length > 0;
    slider.min = few ? 0 : column.low;
    slider.max = few ? column.values.length - 1 : column.high;
    slider.step = few ? 1 : column.step;
    slider.addEventListener("input", () => {
      const value = few ? column.values[Number(slider.value)] : Number(slider.value);
      exact.value = String(value);
      change(index, value, true);
    });
    exact.addEventListener("input", () => {
      const value = exact.value.trim() === "" ? NaN : Number(exact.value);
      const wrong = !Number.isFinite(value);
      exact.setAttribute("aria-invalid", String(wrong));
      if (wrong) return tell("state-problem", `${column.name} must be a number.`);
      change(index, value);
    });
    inputs.push((value, fromSlider) => {
      if (!fromSlider) {
        const near = few ? column.values.reduce((best, v, i) =>
          Math.abs(v - value) < Math.abs(column.values[best] - value) ? i : best, 0) : value;
        slider.value = String(near);
      }
      if (document.activeElement !== exact) exact.value = String(Number(value.toPrecision(6)));
      exact.setAttribute("aria-invalid", "false");
      slider.setAttribute("aria-valuetext", String(Number(value.toPrecision(6))));
    });
  }

  function change(index, value, fromSlider) {
    state[index] = value;
    inputs[index](value, fromSlider);
    refresh();
  }

  function moveTo(values) {
    state = [...values];
    state.forEach((value, index) => inputs[index](value));
    refresh();
  }

  // One question at a time; while it is answered only the last of the others is kept.
  let busy = false, again = false;
  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    do {
      again = false;
      const question = {
        state: [...state],
        along: Number(find("along").value),
        quantity: find("quantity").value,
      };
      try {
        const found = await ask("state", question);
        answer = { ...found, state: question.state };
        // An answer to an older question does not make a value that was typed since right.
        if (!document.querySelector('[aria-invalid="true"]')) tell("state-problem", "");
        showState();
      } catch (problem) {
        tell("state-problem", problem.message);
      }
    } while (again);
    busy = false;
    document.body.dataset.answered = String(Number(document.body.dataset.answered || 0) + 1);
  }

  function showState() {
    const { table, value } = answer;
    const body = find("actions").tBodies[0];
    const rows = fit.actions.map((action, code) => {
      const row = document.createElement("tr");
      const head = make("th", undefined, row);
      head.scope = "row";
      isolate(head, action);
      const known = code === fit.anchor;
      if (known) make("span", " (known)", head).className = "known";
      const bounds = known ? "known" : [table.low[code], table.high[code]];
      const interval = known ? "known" : bounds[0] === null ? "–"
        : `${number(bounds[0])} to ${number(bounds[1])}`;
      for (const text of [number(table.reward[code]), interval, number(table.q[code]),
        number(table.probability[code])]) make("td", text, row);
      return row;
    });
    body.replaceChildren(...rows);
    find("actions-caption").textContent = `Value of the state: ${number(value)}`;
    const place = find("place");
    place.textContent = answer.inside ? "Inside the data."
      : "Outside the data: no state like this was seen, and the figures are extrapolated.";
    place.className = answer.inside ? "" : "outside";
    tell("no-errors", answer.errors ? `No intervals: ${answer.errors}` : "");
    drawCurve();
  }

  function curveData() {
    const { curve } = answer;
    const column = fit.columns[curve.column];
    const shown = [...document.querySelectorAll("#drawn input:checked")]
      .map((box) => Number(box.value));
    return { ...curve, shown, labels: fit.actions, anchor: fit.anchor,
      here: answer.state[curve.column], names: [column.name, WORDS[curve.quantity]],
      levels: column.levels };
  }

  function drawCurve() {
    if (answer) charts.curve(find("curve"), curveData());
  }

  // ---- what if

  function showKind() {
    const kind = find("kind").value;
    for (const row of document.querySelectorAll("[data-kind]")) {
      row.hidden = !row.dataset.kind.split(" ").includes(kind);
    }
    const column = fit.columns[Number(find("scenario-column").value)];
    const levels = Boolean(column.levels);
    for (const part of document.querySelectorAll("[data-value]")) {
      part.hidden = (part.dataset.value === "level") !== levels;
    }
    const mode = find("scenario-mode");
    mode.options[1].disabled = levels;
    if (levels) mode.value = "set";
    const list = find("scenario-level");
    list.replaceChildren();
    (column.levels || []).forEach((level, code) => {
      make("option", level, list).value = String(code);
    });
  }

  function scenarioQuestion() {
    const kind = find("kind").value;
    if (kind === "state") {
      const column = Number(find("scenario-column").value);
      const levels = fit.columns[column].levels;
      const from = find(levels ? "scenario-level" : "scenario-number");
      return { kind, column, mode: find("scenario-mode").value, value: asNumber(from) };
    }
    const question = { kind, action: Number(find("scenario-action").value) };
    if (kind === "transfer") question.amount = asNumber(find("scenario-amount"));
    const periods = find("scenario-periods").value.trim();
    if (periods) question.periods = asNumber(find("scenario-periods"));
    return question;
  }

  function asNumber(input) {
    const value = input.value.trim() === "" ? NaN : Number(input.value);
    if (!Number.isFinite(value)) {
      throw new Error(`“${input.labels[0].textContent}” must be a number.`);
    }
    return value;
  }

  async function runScenario(event) {
    event.preventDefault();
    const button = find("run"), begun = performance.now();
    button.disabled = true;
    tell("scenario-problem", "");
    const clock = setInterval(() => tell("scenario-status",
      `Solving: ${Math.round((performance.now() - begun) / 1000)} s so far`), 1000);
    try {
      scenario = await ask("counterfactual", scenarioQuestion());
      showScenario();
      tell("scenario-status", `Compared: ${scenario.title}`);
    } catch (problem) {
      find("scenario-answer").hidden = true;
      tell("scenario-status", "");
      tell("scenario-problem", problem.message);
    }
    clearInterval(clock);
    button.disabled = false;
  }

  const named = (row) => {
    const action = row.action === null ? "" : ` of ${row.action}`;
    return `${row.horizon === "now" ? "" : row.horizon + ": "}${row.quantity}${action}`;
  };

  // What is drawn: the probabilities of the first horizon, the largest if they are many.
  function pairsData() {
    const horizon = scenario.rows[0].horizon;
    const rows = scenario.rows
      .filter((row) => row.quantity === "probability" && row.horizon === horizon)
      .map((row) => ({ ...row, text: row.action }));
    if (!rows.length) {  // amounts without an atom: how much is done
      rows.push(...scenario.rows
        .filter((row) => row.quantity === "mean amount" && row.horizon === horizon)
        .map((row) => ({ ...row, text: "mean amount" })));
    }
    rows.sort((a, b) => Math.max(b.before, b.after) - Math.max(a.before, a.after));
    return { rows: rows.slice(0, 12),
      title: `Probability of each action before and after: ${scenario.title}` };
  }

  function showScenario() {
    find("scenario-answer").hidden = false;
    find("scenario-title").replaceChildren();
    isolate(find("scenario-title"), scenario.title);
    const rows = scenario.rows.map((row) => {
      const line = document.createElement("tr");
      const head = make("th", undefined, line);
      head.scope = "row";
      isolate(head, named(row) + (row.depends_on_anchor ? " *" : ""));
      const interval = row.low === null ? "–" : `${number(row.low)} to ${number(row.high)}`;
      for (const text of [number(row.before), number(row.after), number(row.change), interval]) {
        make("td", text, line);
      }
      return line;
    });
    find("scenario-table").tBodies[0].replaceChildren(...rows);
    const starred = scenario.rows.some((row) => row.depends_on_anchor)
      ? ["* depends on the reward assumed for the anchor."] : [];
    const notes = find("scenario-notes");
    notes.replaceChildren();
    for (const note of [...scenario.notes, ...starred]) make("li", note, notes);
    charts.pairs(find("bars"), pairsData());
  }

  // ---- the start

  function describe() {
    document.title = `${fit.name} · deeppqr explorer`;
    find("title").replaceChildren();
    isolate(find("title"), fit.name);
    const about = find("about");
    const count = (n, noun) => `${Number(n).toLocaleString("en")} ${noun}`;
    if (fit.rows !== null) about.append(`${count(fit.rows, "decisions")} by ` +
      `${count(fit.units, "units")}. `);
    about.append("Known reward: ");
    isolate(about, fit.actions[fit.anchor]);
    about.append(`. Discount ${fit.discount}, temperature ${fit.temperature}.`);
    if (fit.note) about.append(` ${fit.note}`);
    find("concerns").hidden = fit.concerns.length === 0;
    find("concerns-count").textContent = fit.concerns.length === 1
      ? "1 diagnostic is not ok" : `${fit.concerns.length} diagnostics are not ok`;
    for (const one of fit.concerns) {
      make("li", `${one.name} (${one.verdict}): ${one.meaning}`, find("concerns-list"));
    }
    find("interval-head").textContent = `${100 * fit.level} % interval`;
  }

  function fill() {
    fit.columns.forEach((column, index) => {
      addControl(column, index, find("columns"));
      for (const list of ["along", "scenario-column"]) {
        make("option", column.name, find(list)).value = String(index);
      }
    });
    fit.actions.forEach((action, code) => {
      const label = make("label", undefined, find("drawn"));
      const box = make("input", undefined, label);
      box.type = "checkbox";
      box.value = String(code);
      box.checked = fit.shown_actions.includes(code);
      box.addEventListener("change", drawCurve);
      isolate(label, action);
    });
    fit.payable.forEach(({ code, name }) => {
      make("option", name, find("scenario-action")).value = String(code);
    });
    const other = fit.payable.find(({ code }) => code !== fit.anchor) || fit.payable[0];
    find("scenario-action").value = String(other.code);
    find("scenario-number").value = String(Number((fit.typical[0]).toPrecision(6)));
  }

  // A folder may have any name; a file of it must be one everywhere.
  const fileName = (what, ending) =>
    `${fit.name.replace(/[^A-Za-z0-9_-]+/g, "-").replace(/^-+/, "").slice(0, 40) || "fit"}` +
    `-${what}.${ending}`;

  function listen() {
    find("typical").addEventListener("click", () => moveTo(fit.typical));
    find("random").addEventListener("click", () => {
      moveTo(fit.sample[Math.floor(Math.random() * fit.sample.length)]);
    });
    for (const id of ["along", "quantity"]) find(id).addEventListener("change", refresh);
    for (const id of ["state-form"]) {
      find(id).addEventListener("submit", (event) => event.preventDefault());
    }
    for (const id of ["kind", "scenario-column"]) find(id).addEventListener("change", showKind);
    find("scenario-form").addEventListener("submit", runScenario);
    const csv = "text/csv;charset=utf-8";
    const click = (id, action) => find(id).addEventListener("click", action);
    click("state-csv", () => charts.save(answer.csv, csv, fileName("state", "csv")));
    click("curve-svg", () =>
      charts.saveSvg(charts.curve, curveData(), fileName("curve", "svg")));
    click("curve-png", () =>
      charts.savePng(charts.curve, curveData(), fileName("curve", "png")));
    click("scenario-csv", () => charts.save(scenario.csv, csv, fileName("what-if", "csv")));
    click("bars-svg", () =>
      charts.saveSvg(charts.pairs, pairsData(), fileName("what-if", "svg")));
    click("bars-png", () =>
      charts.savePng(charts.pairs, pairsData(), fileName("what-if", "png")));
    const redraw = () => {
      drawCurve();
      if (scenario) charts.pairs(find("bars"), pairsData());
    };
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    window.addEventListener("resize", redraw);
  }

  async function start() {
    try {
      fit = await ask("fit.json");
    } catch (problem) {
      find("title").textContent = "The fit cannot be shown";
      return tell("state-problem", problem.message);
    }
    describe();
    fill();
    listen();
    showKind();
    moveTo(fit.typical);
  }

  start();
})();
