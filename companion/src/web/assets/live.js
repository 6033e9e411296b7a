// Keeps a page up to date: asks for it again, and exchanges the parts marked `data-live` that have changed.
"use strict";

const every = Number(document.body.dataset.refresh || 0);
const pulse = document.getElementById("pulse");

// A part is left alone while somebody is at work in it.
function isBusy(part) {
  return part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")
    || part.querySelector("input[type=checkbox]:checked") !== null;
}

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(location.href, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(answer.statusText);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (fresh && fresh.outerHTML !== part.outerHTML && !isBusy(part)) part.replaceWith(fresh);
  }
}

async function live() {
  try {
    await refresh();
    pulse?.classList.remove("lost");
    if (pulse) pulse.title = "live";
  } catch {
    pulse?.classList.add("lost");
    if (pulse) pulse.title = "not up to date: the page cannot be reached";
  }
  setTimeout(live, every);
}
if (every) setTimeout(live, every);

// Buttons that ask before they act, and the box that selects all.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-confirm]");
  if (button && !confirm(button.dataset.confirm)) event.preventDefault();
});
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-all]")) return;
  for (const box of event.target.form.querySelectorAll("input[name=id]")) box.checked = event.target.checked;
});

// What a chart says under the pointer.
const shows = {
  number: (value) => Math.round(value).toLocaleString("en"),
  rate: (value) => `${value.toFixed(value < 10 ? 1 : 0)}/s`,
  ms: (value) => value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`,
  bytes: (value) => `${(value / 1048576).toFixed(1)} MB`,
  percent: (value) => `${value.toFixed(1)} %`,
};
document.addEventListener("pointermove", (event) => {
  const plot = event.target.closest?.(".plot");
  for (const old of document.querySelectorAll(".reading")) if (old.parentNode !== plot) old.remove();
  if (!plot) return;
  const frame = plot.getBoundingClientRect();
  const x = (event.clientX - frame.left) / frame.width;
  const values = [...plot.querySelectorAll("polyline")].map((line) => {
    const points = line.getAttribute("points").split(" ").filter(Boolean).map((point) => point.split(",").map(Number));
    const nearest = points.reduce((best, point) => Math.abs(point[0] / 300 - x) < Math.abs(best[0] / 300 - x) ? point : best, points[0] || [0, 100]);
    return shows[plot.dataset.unit]((100 - nearest[1]) / 100 * Number(plot.dataset.top));
  });
  const at = new Date(Number(plot.dataset.first) + x * (plot.dataset.last - plot.dataset.first));
  const reading = plot.querySelector(".reading") || plot.appendChild(Object.assign(document.createElement("span"), { className: "reading" }));
  reading.textContent = `${at.toLocaleTimeString()}  ${values.join("  ")}`;
});
