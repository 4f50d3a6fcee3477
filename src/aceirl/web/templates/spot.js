"use strict";
// Where a state is: the map panel that it lies on, from the environment's own picture, with a ring around the place.
function spot(panels, state) {
  const drawn = (kind, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const panel = panels.find(({ places }) => places.some((one) => one[0] === state));
  if (!panel) return "";
  const [, x, y] = panel.places.find((one) => one[0] === state);
  const xs = panel.places.map((one) => one[1]), ys = panel.places.map((one) => one[2]);
  const [left, right, low, high] = panel.box || [Math.min(...xs) - 0.6, Math.max(...xs) + 0.6, Math.min(...ys) - 0.6, Math.max(...ys) + 0.6];
  const svg = drawn("svg", { viewBox: `${left} ${-high} ${right - left} ${high - low}`, class: "spot", "aria-hidden": "true" });
  if (panel.picture) svg.append(drawn("image", { x: left, y: -high, width: right - left, height: high - low, href: panel.picture, preserveAspectRatio: "none" }));
  else for (const [, column, row] of panel.places) svg.append(drawn("rect", { class: "cell", x: column - 0.44, y: -row - 0.44, width: 0.88, height: 0.88, rx: 0.12 }));
  svg.append(drawn("rect", { class: "ring", x: x - 0.46, y: -y - 0.46, width: 0.92, height: 0.92, rx: 0.12 }));
  return svg;
}

