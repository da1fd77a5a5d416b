// Before anything is painted, so that nobody who chose dark is dazzled first.
try {
  const theme = localStorage.getItem("shunter-theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch { /* Storage is forbidden: the system's choice holds. */ }
