// Draws the page anew every few seconds while somebody looks at it, without losing what is typed.
const main = document.getElementById("main");
let due = 0;

async function refresh() {
  const every = Number(main.dataset.refresh) * 1000;
  if (!every || document.hidden || document.activeElement?.closest("form.filters")) return;
  if (Date.now() < due) return;
  due = Date.now() + every;
  try {
    const answer = await fetch(location.href, { redirect: "manual" });
    if (answer.type === "opaqueredirect") return location.reload();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("main");
    if (!fresh) return;
    main.replaceChildren(...fresh.childNodes);
    main.dataset.refresh = fresh.dataset.refresh;
    main.classList.remove("stale");
  } catch {
    main.classList.add("stale");
  }
}

due = Date.now() + Number(main.dataset.refresh) * 1000;
setInterval(refresh, 500);
