// What no client can have of the browser, whatever its profile, its preferences and its downloads say: programs of the
// container, and pages that have the browser's own rights.
//
// Each function that is replaced here must exist. Where a newer Firefox has none, the worker does not start.

import { DownloadIntegration } from "resource://gre/modules/DownloadIntegration.sys.mjs";
import { HandlerService } from "resource://gre/modules/ExtHandlerService.sys.mjs";
import { NativeManifests } from "resource://gre/modules/NativeManifests.sys.mjs";

/** Pages of the browser's own that have no more rights than a site, or have to be there. */
const PAGES = new Set(
  (
    "blank blocked buildconfig certerror credits home httpsonlyerror license logo logopage mozilla neterror newtab " +
    "privatebrowsing reader restartrequired rights robots sessionrestore srcdoc tabcrashed welcome"
  ).split(" ")
);
/** What an empty new tab is. */
const EMPTY_TAB = "chrome://browser/content/blanktab.html";
/** Schemes that lead to sites, to what sites made, and to extensions. */
const SCHEMES = new Set(["http", "https", "data", "blob", "moz-extension", "javascript", "file"]);
/** Schemes around another address. */
const AROUND = new Set(["view-source", "jar"]);

export function closeFence() {
  runNoPrograms();
  openNoPrivilegedPages();
}

function replace(owner, name, replacement) {
  const original = owner[name];
  if (typeof original !== "function") throw new Error(`${name}: Firefox has it no more`);
  owner[name] = replacement(original);
}

function runNoPrograms() {
  // A download is saved, whatever was said of its type.
  replace(HandlerService.prototype, "fillHandlerInfo", original => function (info, ...rest) {
    original.call(this, info, ...rest);
    if (!this._isMIMEInfo(info) || info.preferredAction === Ci.nsIHandlerInfo.handleInternally) return;
    info.preferredAction = Ci.nsIHandlerInfo.saveToDisk;
    info.alwaysAskBeforeHandling = false;
  });
  // Neither is it opened later, nor its folder, by a program.
  replace(DownloadIntegration, "launchFile", () => () => {});
  replace(DownloadIntegration, "showContainingDirectory", () => async () => {});
  // Programs that extensions talk to, and libraries that they bring for keys.
  replace(NativeManifests, "lookupManifest", () => async () => null);
}

/** Refuses to open a page in a tab that has more rights than a site. */
function openNoPrivilegedPages() {
  const { TYPE_DOCUMENT, ACCEPT, REJECT_POLICY } = Ci.nsIContentPolicy;
  const policy = {
    QueryInterface: ChromeUtils.generateQI(["nsIContentPolicy"]),
    shouldLoad(uri, loadInfo) {
      const isTab = loadInfo.externalContentPolicyType === TYPE_DOCUMENT && inTab(loadInfo);
      return isTab && !isOpen(uri) ? REJECT_POLICY : ACCEPT;
    },
    shouldProcess: () => ACCEPT,
  };
  const contract = "@warmpool/fence;1";
  const registrar = Components.manager.QueryInterface(Ci.nsIComponentRegistrar);
  const factory = { createInstance: iid => policy.QueryInterface(iid), QueryInterface: ChromeUtils.generateQI(["nsIFactory"]) };
  registrar.registerFactory(Services.uuid.generateUUID(), "Warmpool's fence", contract, factory);
  Services.catMan.addCategoryEntry("content-policy", contract, contract, false, true);
}

/** Whether something loads where a user sees pages, and not in the browser's own surface. */
function inTab({ targetBrowsingContext, browsingContext }) {
  const element = (targetBrowsingContext ?? browsingContext)?.top.embedderElement;
  return Boolean(element?.getTabBrowser?.());
}

function isOpen(uri) {
  while (AROUND.has(uri.scheme)) {
    const { pathQueryRef } = uri;
    const inner = uri.scheme === "jar" ? pathQueryRef.slice(0, pathQueryRef.lastIndexOf("!/")) : pathQueryRef;
    uri = Services.io.newURI(inner);
  }
  if (uri.scheme === "about") return PAGES.has(uri.filePath.toLowerCase());
  return SCHEMES.has(uri.scheme) || uri.specIgnoringRef === EMPTY_TAB;
}
