// The tabs of all windows, and a hand's few acts on one of them, for a person who watches.

const WINDOW = "navigator:browser";

/** Names of tabs, by what stays the same of them through navigations, other processes and other windows. */
const ids = new WeakMap();
let last = 0;

/** The name of the tab that this browser element is in. */
export function idOf({ permanentKey }) {
  if (!ids.has(permanentKey)) ids.set(permanentKey, `${++last}`);
  return ids.get(permanentKey);
}

/** All tabs, the one in front first. A window that is being set up has none yet. */
function allTabs() {
  const front = Services.wm.getMostRecentWindow(WINDOW)?.gBrowser?.selectedTab;
  const tabs = [...Services.wm.getEnumerator(WINDOW)].flatMap(window => [...(window.gBrowser?.tabs ?? [])]);
  return front ? [front, ...tabs.filter(tab => tab !== front)] : tabs;
}

/** Pages choose their titles, and may choose what is no text. */
const text = (string, longest) => string.slice(0, longest).toWellFormed().replace(/[\p{Cc}\s]+/gu, " ");

/** {most: tabs, longest: characters}; gives [{id, title, url}]. */
export function listPages({ most, longest }) {
  return allTabs()
    .slice(0, most)
    .map(({ linkedBrowser: browser }) => ({
      id: idOf(browser),
      title: text(browser.contentTitle ?? "", longest),
      url: text(browser.currentURI.spec, longest),
    }));
}

const ACTS = {
  show(tab) {
    const window = tab.ownerDocument.defaultView;
    window.gBrowser.selectedTab = tab;
    window.focus();
  },
  back: ({ linkedBrowser: browser }) => browser.canGoBack && browser.goBack(false),
  forward: ({ linkedBrowser: browser }) => browser.canGoForward && browser.goForward(false),
  reload: ({ linkedBrowser: browser }) => browser.reload(),
  open: ({ linkedBrowser: browser }, url) => openAddress(browser, url),
};

/** {page: id, act, url}; says whether there is such a page. */
export function actOn({ page, act, url }) {
  const tab = allTabs().find(({ linkedBrowser }) => idOf(linkedBrowser) === page);
  if (tab) ACTS[act](tab, url);
  return Boolean(tab);
}

/** Opens an address in a tab, as if typed. */
export function openAddress(browser, url) {
  browser.fixupAndLoadURIString(url, { triggeringPrincipal: Services.scriptSecurityManager.getSystemPrincipal() });
}

/** Opens an address in a tab; gives the name of the error once it has failed, or nothing once it has loaded. */
export function openFirst(browser, url) {
  const { promise, resolve } = Promise.withResolvers();
  const { STATE_STOP, STATE_IS_NETWORK } = Ci.nsIWebProgressListener;
  const listener = {
    QueryInterface: ChromeUtils.generateQI(["nsIWebProgressListener", "nsISupportsWeakReference"]),
    onStateChange(progress, request, flags, status) {
      if (!progress.isTopLevel || !(flags & STATE_STOP) || !(flags & STATE_IS_NETWORK)) return;
      browser.removeProgressListener(listener);
      // A download, and what a client opens instead, abort it.
      const failed = !Components.isSuccessCode(status) && status !== Cr.NS_BINDING_ABORTED;
      resolve(failed ? nameOf(status) : null);
    },
  };
  browser.addProgressListener(listener, Ci.nsIWebProgress.NOTIFY_STATE_NETWORK);
  openAddress(browser, url);
  return promise;
}

/** The name of an error. */
export function nameOf(status) {
  return Object.keys(Cr).find(name => Cr[name] === status) ?? `error 0x${status.toString(16)}`;
}
