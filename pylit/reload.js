// Sent with every page while `build_site.py serve` runs, and never written to the site.
// The server says which build it shows and what is wrong with the last one; a page of another
// build reloads, and faults lie over the page until they are mended.
"use strict";
{
  const shown = document.currentScript.dataset.version;
  let sheet = null;

  const tell = (fault) => {
    sheet?.remove();
    sheet = null;
    if (!fault) return;
    sheet = document.createElement("pre");
    sheet.setAttribute("role", "alert");
    sheet.tabIndex = 0;
    sheet.style.cssText =
      "position:fixed;inset:auto 0 0 0;max-height:60vh;overflow:auto;margin:0;padding:1rem;" +
      "z-index:2147483647;font:13px/1.6 monospace;white-space:pre-wrap;" +
      "color:#fff;background:#7a1020;border-top:4px solid #ff8095";
    sheet.textContent = fault;
    document.body.append(sheet);
  };

  new EventSource("/__pylit__/events").onmessage = (event) => {
    const state = JSON.parse(event.data);
    if (state.version === shown) tell(state.fault);
    else location.reload();
  };
}
