// Search, themes, the drawer of small screens, copying. No requests but for the index of the search.
"use strict";

(() => {
  const root = document.documentElement;
  const base = root.dataset.root;
  const one = (selector) => document.querySelector(selector);

  // -- theme and drawer
  one(".theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("quire-theme", root.dataset.theme); } catch (error) { /* storage may be forbidden */ }
  });
  const menu = one(".menu");
  const drawer = (open) => {
    document.body.classList.toggle("opened", open);
    menu.setAttribute("aria-expanded", open);
  };
  menu.addEventListener("click", () => drawer(!document.body.classList.contains("opened")));
  one("main").addEventListener("click", () => drawer(false));
  const current = one(".nav [aria-current]");
  if (current) current.scrollIntoView({ block: "nearest" });

  // -- copy: the code without prompts and what was printed
  document.querySelectorAll(".copy").forEach((button) => {
    button.addEventListener("click", async () => {
      const code = button.previousElementSibling.cloneNode(true);
      code.querySelectorAll(".gp, .go").forEach((part) => part.remove());
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  });

  // -- the heading that is read
  const marks = new Map([...document.querySelectorAll(".contents a")].map((a) => [decodeURIComponent(a.hash.slice(1)), a]));
  const headings = [...marks.keys()].map((id) => document.getElementById(id)).filter(Boolean);
  const follow = () => {
    const passed = headings.filter((heading) => heading.getBoundingClientRect().top < 120);
    const here = passed.length ? passed[passed.length - 1].id : null;
    marks.forEach((a, id) => a.classList.toggle("here", id === here));
  };
  if (headings.length) { addEventListener("scroll", follow, { passive: true }); follow(); }

  // -- search
  const input = one(".search input");
  const found = one(".found");
  let index = null;
  let chosen = 0;

  const load = () => {
    if (index !== null) return;
    index = [];
    const script = document.createElement("script");
    script.src = `${base}/assets/search-index.js`;
    script.onload = () => {
      index = window.quireSearch.map(([url, page, heading, text]) => ({
        url, page, heading, text, lower: text.toLowerCase(), title: `${heading}`.toLowerCase(), top: page.toLowerCase(),
      }));
      show();
    };
    document.head.append(script);
  };

  const score = (entry, words) => {
    let sum = 0;
    for (const word of words) {
      const starts = new RegExp(`(^|[^\\p{L}\\p{N}])${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`, "u");
      let points = 0;
      if (entry.title === word || entry.title.endsWith(`.${word}`)) points += 60;
      else if (starts.test(entry.title)) points += 30;
      else if (entry.title.includes(word)) points += 12;
      if (starts.test(entry.top)) points += 8;
      if (starts.test(entry.lower)) points += 4 + Math.min(3, entry.lower.split(word).length - 2);
      else if (entry.lower.includes(word)) points += 1;
      if (!points) return 0;
      sum += points;
    }
    return sum;
  };

  const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c]));
  const marked = (text, words) => {
    const pattern = words.map((w) => escaped(w).replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
    return escaped(text).replace(new RegExp(`(${pattern})`, "gi"), "<mark>$1</mark>");
  };
  const excerpt = (entry, words) => {
    const places = words.map((word) => entry.lower.indexOf(word)).filter((place) => place >= 0);
    const at = places.length ? Math.max(0, Math.min(...places) - 50) : 0;
    return (at ? "… " : "") + entry.text.slice(at, at + 180);
  };

  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    found.hidden = !words.length;
    if (!words.length || !index.length) return;
    const best = index.map((entry) => [score(entry, words), entry]).filter(([points]) => points)
      .sort((a, b) => b[0] - a[0]).slice(0, 12);
    chosen = 0;
    found.innerHTML = best.map(([, entry]) =>
      `<a role="option" href="${base}/${escaped(entry.url)}"><b>${marked(entry.heading || entry.page, words)}</b>` +
      `${entry.heading && entry.heading !== entry.page ? `<small>${escaped(entry.page)}</small>` : ""}` +
      `<p>${marked(excerpt(entry, words), words)}</p></a>`).join("") || '<p class="none">Nothing found.</p>';
    choose(0);
  };
  const choose = (to) => {
    const links = [...found.querySelectorAll("a")];
    if (!links.length) return;
    chosen = (to + links.length) % links.length;
    links.forEach((link, at) => link.setAttribute("aria-selected", at === chosen));
    links[chosen].scrollIntoView({ block: "nearest" });
  };
  const close = () => { found.hidden = true; };

  input.addEventListener("focus", () => { load(); if (input.value) show(); });
  input.addEventListener("input", () => { load(); show(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { choose(chosen + 1); event.preventDefault(); }
    else if (event.key === "ArrowUp") { choose(chosen - 1); event.preventDefault(); }
    else if (event.key === "Enter") { const link = found.querySelectorAll("a")[chosen]; if (link) { close(); link.click(); } }
    else if (event.key === "Escape") { close(); input.blur(); }
  });
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) close(); });
  document.addEventListener("keydown", (event) => {
    const typing = /^(input|textarea)$/i.test(document.activeElement.tagName);
    if (event.key === "/" && !typing) { input.focus(); event.preventDefault(); }
    if (event.key === "Escape") drawer(false);
  });
})();
