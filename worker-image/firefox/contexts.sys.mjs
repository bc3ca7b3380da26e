// A user context (Firefox's containers) for each piece of work: cookies, storage, caches, service workers, permissions and
// logins of pages are kept by it, and its number is never used again. What Firefox keeps by site alone is switched off
// where it can be. Left is which sites want https (HSTS).

import { ContextualIdentityService } from "resource://gre/modules/ContextualIdentityService.sys.mjs";
import { Downloads } from "resource://gre/modules/Downloads.sys.mjs";

const lazy = {};
// Not before they are wanted: no other session needs them.
ChromeUtils.defineESModuleGetters(lazy, {
  NavigableManager: "chrome://remote/content/shared/NavigableManager.sys.mjs",
  waitForInitialNavigationCompleted: "chrome://remote/content/shared/Navigate.sys.mjs",
});

const WINDOW = "navigator:browser";

/** Things that would be remembered by site, and for all contexts alike. */
const SHARED = {
  "permissions.isolateBy.userContext": true,
  "places.history.enabled": false,
  "browser.zoom.siteSpecific": false,
};

/** How long a tab may take until it begins to load its empty page, in milliseconds: as long as the driver itself gives it. */
const BEGIN = 5000;

/** The window that the browser began with, and its size; its first tab stays empty. */
let home = null;

/** The context that is open, by its number. */
let context = null;

/** Opens a context with one tab; gives the tab's handle. */
export function openContext() {
  if (!home) {
    const window = Services.wm.getMostRecentWindow(WINDOW);
    home = { window, size: [window.outerWidth, window.outerHeight] };
    for (const [name, value] of Object.entries(SHARED)) Services.prefs.setBoolPref(name, value);
  }
  const { window, size } = home;
  if (window.windowState !== window.STATE_NORMAL) window.restore();
  if (window.outerWidth !== size[0] || window.outerHeight !== size[1]) window.resizeTo(...size);
  context = ContextualIdentityService.create("context").userContextId;
  return openWindow();
}

/** Opens a tab in the context; gives its handle. */
export async function openWindow() {
  if (context === null) throw new Error("no context is open");
  const { gBrowser } = home.window;
  const tab = gBrowser.addTab("about:blank", {
    triggeringPrincipal: Services.scriptSecurityManager.getSystemPrincipal(),
    userContextId: context,
  });
  gBrowser.selectedTab = tab;
  // Or the end of this load is taken for that of the first page.
  const { webProgress } = tab.linkedBrowser.browsingContext;
  await lazy.waitForInitialNavigationCompleted(webProgress, { unloadTimeout: BEGIN });
  return lazy.NavigableManager.getIdForBrowser(tab.linkedBrowser);
}

/** Closes the context's tabs, whatever their pages say to that, and forgets what it kept. */
export async function closeContext() {
  if (context === null) return;
  const closed = context;
  context = null;
  for (const window of Services.wm.getEnumerator(WINDOW)) {
    for (const tab of [...window.gBrowser.tabs]) {
      if (tab.userContextId === closed) window.gBrowser.removeTab(tab, { animate: false, skipPermitUnload: true });
    }
  }
  const list = await Downloads.getList(Downloads.ALL);
  for (const download of await list.getAll()) {
    await list.remove(download);
    await download.finalize(true);
  }
  ContextualIdentityService.remove(closed);
}
