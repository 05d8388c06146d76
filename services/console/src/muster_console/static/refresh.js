// Draws the page anew every few seconds while somebody looks at it. Nothing that is typed, focused
// or opened is lost, and whoever wants to read in peace pauses it.
const main = document.getElementById("main");
const pause = document.getElementById("pause");
const asOf = document.getElementById("as-of");
const trouble = document.getElementById("trouble");
const FOCUSABLE = "a[href], button, input, select, summary";
let due = 0;
let paused = false;
let fetching = false;

function every() {
  return Number(main.dataset.refresh) * 1000;
}

function stamp() {
  pause.hidden = !every();
  asOf.textContent = every() ? `as of ${new Date().toISOString().slice(11, 19)}Z` : "";
}

function say(problem) {
  main.classList.toggle("stale", Boolean(problem));
  trouble.hidden = !problem;
  trouble.textContent = problem;
}

function replaceWith(fresh) {
  const opened = new Set([...main.querySelectorAll("details[open]")].map((each) => each.dataset.key));
  const place = [...main.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  main.replaceChildren(...fresh.childNodes);
  main.dataset.refresh = fresh.dataset.refresh;
  for (const each of main.querySelectorAll("details")) each.open = opened.has(each.dataset.key);
  if (place >= 0) main.querySelectorAll(FOCUSABLE)[place]?.focus({ preventScroll: true });
}

async function refresh() {
  if (!every() || paused || fetching || document.hidden || Date.now() < due) return;
  if (document.activeElement?.closest("form.filters")) return;
  fetching = true;
  try {
    const answer = await fetch(location.href, { redirect: "manual" });
    if (answer.type === "opaqueredirect") return location.reload();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("main");
    if (!answer.ok) return say(`Not fresh: ${page.querySelector("main h1")?.textContent ?? answer.status}.`);
    replaceWith(fresh);
    stamp();
    say("");
  } catch {
    say("Not fresh: the console does not answer. This page tries again by itself.");
  } finally {
    fetching = false;
    due = Date.now() + every();
  }
}

pause?.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Pause";
});
if (pause) {
  stamp();
  due = Date.now() + every();
  setInterval(refresh, 500);
}
