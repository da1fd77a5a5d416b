// Runs before the first paint, so that the page does not flash in the wrong theme.
try {
  const theme = localStorage.getItem("shunter-theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch { /* Storage is forbidden: the system's choice holds. */ }

// Who is signed in is asked while the other files are being read. This file is assets/DIGEST/theme.js below the page's root.
window.early = { "/session": fetch(new URL("../../api/v1/session", document.currentScript.src), { credentials: "same-origin" }).catch(() => null) };
