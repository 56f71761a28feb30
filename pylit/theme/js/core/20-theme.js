// Light, dark, or as the system has it; the style sheet does the rest.
const THEMES = { "": "as the system", light: "light", dark: "dark" };
const themeButton = find("#theme-button");
const barColors = findAll("meta[name=theme-color]").map((meta) => [meta, meta.content]);

const showTheme = (theme) => {
  root.dataset.theme = theme;
  themeButton.ariaLabel = themeButton.title = `Theme: ${THEMES[theme]}`;
  const chosen = { light: barColors[0][1], dark: barColors[1][1] }[theme];
  for (const [meta, own] of barColors) meta.content = chosen ?? own;
};

themeButton.addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(root.dataset.theme) + 1) % names.length];
  settings.set("theme", next);
  showTheme(next);
});
// Another page of the site, in another tab.
addEventListener("storage", (event) => {
  if (event.key === "pylit-theme") showTheme(event.newValue in THEMES ? event.newValue : "");
});
showTheme(root.dataset.theme in THEMES ? root.dataset.theme : "");
