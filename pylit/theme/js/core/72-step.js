// A link from another page opens the replay at a line.
if (location.search === "?step" && /^#L\d+$/.test(location.hash)) find(`${location.hash} ~ samp`)?.click();
