// Before anything is drawn: the theme that was chosen, so that nothing flashes.
try {
  const chosen = localStorage.getItem("quire-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* storage is off: the system's scheme it is */ }
