// Extensions that a session begins with. They are temporary, so none needs a signature, and none outlives its browser.

import { AddonManager } from "resource://gre/modules/AddonManager.sys.mjs";

/** Loads the archive at a path. Done when its content scripts are known to pages. */
export async function loadExtension({ path }) {
  const file = Cc["@mozilla.org/file/local;1"].createInstance(Ci.nsIFile);
  file.initWithPath(path);
  let addon;
  try {
    addon = await AddonManager.installTemporaryAddon(file);
  } catch (error) {
    const details = (error.additionalErrors ?? []).map(String);
    throw new Error([error.message, ...details].join("; "));
  }
  await WebExtensionPolicy.getByID(addon.id)?.readyPromise;
  return addon.id;
}
