"use strict";
// Charts as SVG elements. All text is set by textContent; colours are attributes, so that a
// downloaded file looks as the page does.

const charts = (() => {
  const SPACE = "http://www.w3.org/2000/svg";
  // Okabe and Ito: told apart with any kind of colour blindness; lines differ in dashes too.
  const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
  // The same hues, lighter, for a dark ground.
  const LIGHTER = ["#5bb4ea", "#ff9a4d", "#35cfa4", "#eaa5cb", "#f2c14e", "#b8dff7"];
  const DASHES = ["", "7 4", "2 3", "10 3 2 3", "5 2", "1 2"];
  const LIGHT = { ink: "#1b1c1d", soft: "#55585c", line: "#c9ccd0", paper: "#ffffff",
    colours: COLOURS };
  const DARK = { ink: "#ececec", soft: "#b4b8bd", line: "#3d4145", paper: "#1f2225",
    colours: LIGHTER };
  const WIDEST = 760, NARROWEST = 340, LEFT = 64, RIGHT = 16, TOP = 16, BOTTOM = 48;

  function node(parent, name, attributes, text) {
    const made = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  const theme = () =>
    window.matchMedia("(prefers-color-scheme: dark)").matches ? DARK : LIGHT;

  // As wide as there is room, so that letters keep their size on a phone.
  const room = (container) =>
    Math.max(NARROWEST, Math.min(WIDEST, container.clientWidth || WIDEST));

  const brief = (text, length = 28) =>
    text.length > length ? text.slice(0, length - 1) + "…" : text;

  function number(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) {
      return value.toExponential(2).replace("-", "−");
    }
    const digits = Math.max(0, Math.min(4, 3 - Math.floor(Math.log10(Math.abs(value) || 1))));
    return value.toFixed(Math.max(digits, 0)).replace("-", "−");
  }

  // Four to seven round numbers that cover a range.
  function ticks(low, high) {
    const rough = (high - low) / 5, size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * size).find((k) => k >= rough) || rough;
    const found = [];
    for (let at = Math.ceil(low / step); at * step <= high + 1e-9 * step; at++) {
      found.push(at * step);
    }
    return found;
  }

  const tickText = (value) => String(Number(value.toPrecision(6))).replace("-", "−");

  function scale(low, high, from, to) {
    const width = high - low || 1;
    return (value) => from + ((value - low) / width) * (to - from);
  }

  function range(values, includeZero) {
    const known = values.filter((v) => Number.isFinite(v));
    if (includeZero) known.push(0);
    let low = Math.min(...known), high = Math.max(...known);
    if (!known.length) [low, high] = [0, 1];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    return [low - 0.04 * (high - low), high + 0.04 * (high - low)];
  }

  function sheet(container, width, height, title, description, look) {
    const svg = document.createElementNS(SPACE, "svg");
    const names = container.id ? [`${container.id}-title`, `${container.id}-text`] : [];
    const frame = { viewBox: `0 0 ${width} ${height}`, role: "img", xmlns: SPACE };
    for (const [key, value] of Object.entries(frame)) svg.setAttribute(key, value);
    svg.setAttribute("font-family", "system-ui, sans-serif");
    svg.setAttribute("font-size", "13");
    if (names.length) svg.setAttribute("aria-labelledby", names.join(" "));
    node(svg, "title", names.length ? { id: names[0] } : {}, title);
    node(svg, "desc", names.length ? { id: names[1] } : {}, description);
    node(svg, "rect", { width, height, fill: look.paper });
    return svg;
  }

  function axes(svg, x, y, xTicks, yTicks, [width, height], names, look) {
    for (const one of yTicks) {
      const at = y(one);
      node(svg, "line", { x1: LEFT, x2: width - RIGHT, y1: at, y2: at, stroke: look.line });
      const place = { x: LEFT - 8, y: at + 4, "text-anchor": "end", fill: look.ink };
      node(svg, "text", place, tickText(one));
    }
    for (const [one, text] of xTicks) {
      const place = { x: x(one), y: height - BOTTOM + 20, "text-anchor": "middle" };
      node(svg, "text", { ...place, fill: look.ink }, text);
    }
    const below = { x: (LEFT + width - RIGHT) / 2, y: height - 8, "text-anchor": "middle" };
    node(svg, "text", { ...below, fill: look.ink }, brief(names[0], 60));
    const middle = (TOP + height - BOTTOM) / 2;
    const turned = { x: 14, y: middle, transform: `rotate(-90 14 ${middle})` };
    node(svg, "text", { ...turned, "text-anchor": "middle", fill: look.ink }, names[1]);
  }

  // Curves of some actions along a column, with intervals, and the chosen state.
  function curve(container, data, look = theme()) {
    const { x: points, y, low, high, shown, labels, anchor, here, names, levels } = data;
    const width = room(container), across = Math.max(1, Math.floor((width - LEFT) / 220));
    const height = 352 + 20 * Math.ceil(shown.length / across);
    const bottom = 340 - BOTTOM;
    const known = shown.flatMap((a) => [...y[a], ...(low ? [...low[a], ...high[a]] : [])]);
    const [bottomValue, topValue] = range(known.filter((v) => v !== null));
    const listed = shown.map((a) => labels[a]).join(", ");
    const svg = sheet(container, width, height, `${names[1]} along ${names[0]}`,
      `Curves of ${listed}. The table has the figures at the chosen state.`, look);
    const sx = scale(...range(points), LEFT, width - RIGHT);
    const sy = scale(bottomValue, topValue, bottom, TOP);
    const few = levels ? points.map((p) => [p, brief(levels[p], 12)]) : null;
    const step = few ? Math.ceil(few.length / (width / 76)) : 1;
    const marks = few ? few.filter((_, i) => i % step === 0)
      : ticks(...range(points)).map((p) => [p, tickText(p)]);
    axes(svg, sx, sy, marks, ticks(bottomValue, topValue), [width, 340], names,
      look);
    node(svg, "line", { x1: sx(here), x2: sx(here), y1: TOP, y2: bottom, stroke: look.soft,
      "stroke-dasharray": "3 3" });
    shown.forEach((action, order) => {
      const colour = action === anchor ? look.soft : look.colours[order % look.colours.length];
      const dash = DASHES[order % DASHES.length];
      const ok = points.map((_, i) => Number.isFinite(y[action][i]));
      if (low && action !== anchor && low[action].some(Number.isFinite)) {
        const inside = points.map((_, i) => i).filter((i) => Number.isFinite(low[action][i]));
        if (levels) {
          for (const i of inside) {
            node(svg, "line", { x1: sx(points[i]), x2: sx(points[i]), y1: sy(low[action][i]),
              y2: sy(high[action][i]), stroke: colour, "stroke-width": 2, opacity: 0.5 });
          }
        } else {
          const there = inside.map((i) => `${sx(points[i])},${sy(low[action][i])}`);
          const back = inside.map((i) => `${sx(points[i])},${sy(high[action][i])}`).reverse();
          node(svg, "polygon", { points: [...there, ...back].join(" "), fill: colour,
            opacity: 0.18 });
        }
      }
      if (!levels) {
        let path = "";
        points.forEach((p, i) => {
          if (ok[i]) path += `${i && ok[i - 1] ? "L" : "M"}${sx(p)} ${sy(y[action][i])}`;
        });
        node(svg, "path", { d: path, fill: "none", stroke: colour, "stroke-width": 2.2,
          "stroke-dasharray": dash });
      }
      points.forEach((p, i) => {
        if (ok[i] && (levels || p === here)) {
          node(svg, "circle", { cx: sx(p), cy: sy(y[action][i]), r: p === here ? 5 : 3.5,
            fill: colour });
        }
      });
      const left = LEFT + (order % across) * 220;
      const top = 356 + 20 * Math.floor(order / across);
      node(svg, "line", { x1: left, x2: left + 28, y1: top, y2: top, stroke: colour,
        "stroke-width": 2.4, "stroke-dasharray": dash });
      const known = action === anchor ? " (known)" : "";
      node(svg, "text", { x: left + 34, y: top + 4, fill: look.ink },
        brief(labels[action], 20) + known);
    });
    container.replaceChildren(svg);
  }

  // Before and after of some figures: two marks on a line each, and the interval.
  function pairs(container, data, look = theme()) {
    const { rows, title } = data;
    const height = TOP + 26 * rows.length + BOTTOM + 24;
    const width = room(container), left = Math.min(240, width / 3);
    const described = rows.map((r) => `${r.text}: ${number(r.before)} to ${number(r.after)}`);
    const svg = sheet(container, width, height, title, described.join("; "), look);
    const ends = rows.flatMap((r) => [r.before, r.after,
      ...(Number.isFinite(r.low) ? [r.before + r.low, r.before + r.high] : [])]);
    const [low, high] = range(ends.filter((v) => v !== null));
    const sx = scale(low, high, left, width - RIGHT);
    const bottom = TOP + 26 * rows.length;
    for (const one of ticks(low, high)) {
      node(svg, "line", { x1: sx(one), x2: sx(one), y1: TOP, y2: bottom, stroke: look.line });
      node(svg, "text", { x: sx(one), y: bottom + 18, "text-anchor": "middle",
        fill: look.ink }, tickText(one));
    }
    rows.forEach((row, i) => {
      const y = TOP + 26 * i + 13;
      node(svg, "text", { x: left - 10, y: y + 4, "text-anchor": "end", fill: look.ink },
        brief(row.text, Math.floor(left / 7)));
      if (!Number.isFinite(row.before) || !Number.isFinite(row.after)) return;
      if (Number.isFinite(row.low)) {
        node(svg, "line", { x1: sx(row.before + row.low), x2: sx(row.before + row.high),
          y1: y, y2: y, stroke: look.colours[1], "stroke-width": 8, opacity: 0.25 });
      }
      node(svg, "line", { x1: sx(row.before), x2: sx(row.after), y1: y, y2: y,
        stroke: look.soft });
      node(svg, "circle", { cx: sx(row.before), cy: y, r: 5, fill: look.paper,
        stroke: look.colours[0], "stroke-width": 2 });
      node(svg, "circle", { cx: sx(row.after), cy: y, r: 5, fill: look.colours[1] });
    });
    const y = height - 14;
    node(svg, "circle", { cx: left + 6, cy: y - 4, r: 5, fill: look.paper,
      stroke: look.colours[0], "stroke-width": 2 });
    node(svg, "text", { x: left + 18, y, fill: look.ink }, "before");
    node(svg, "circle", { cx: left + 96, cy: y - 4, r: 5, fill: look.colours[1] });
    node(svg, "text", { x: left + 108, y, fill: look.ink }, "after");
    container.replaceChildren(svg);
  }

  function save(content, type, name) {
    const address = URL.createObjectURL(new Blob([content], { type }));
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  // In the light colours, as a file is to be printed or put into a paper.
  function drawnLight(draw, data) {
    const box = document.createElement("div");
    draw(box, data, LIGHT);
    return new XMLSerializer().serializeToString(box.firstChild);
  }

  const saveSvg = (draw, data, name) => save(drawnLight(draw, data), "image/svg+xml", name);

  function savePng(draw, data, name) {
    const picture = new Image();
    const text = drawnLight(draw, data);
    picture.onload = () => {
      const canvas = document.createElement("canvas"), twice = 2;
      const [, width, height] = /viewBox="0 0 (\S+) (\S+)"/.exec(text).map(Number);
      [canvas.width, canvas.height] = [twice * width, twice * height];
      canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, "image/png", name), "image/png");
      URL.revokeObjectURL(picture.src);
    };
    picture.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  }

  return { curve, pairs, number, save, saveSvg, savePng };
})();
