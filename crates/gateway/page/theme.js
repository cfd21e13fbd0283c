// Sets light or dark before the first paint, so that the page does not flash. Loaded as a classic script on purpose.
// It never does anything else.
(function () {
  let wish = null;
  try { wish = localStorage.getItem('theme'); } catch (_) { /* no storage: the system decides */ }
  const isDark = wish ? wish === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
})();
