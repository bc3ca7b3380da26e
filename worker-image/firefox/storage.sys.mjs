// What Firefox keeps for sites. Cookies and local storage are read and written from here; databases by the agent's script in a
// sandbox of their origin, so that no page of it is ever loaded. Of all that is stored, only what has no container and no other
// site around it counts.

const lazy = {};
// Not before they are wanted: most sessions have no state.
ChromeUtils.defineESModuleGetters(lazy, {
  SessionStore: "resource:///modules/sessionstore/SessionStore.sys.mjs",
  clearTimeout: "resource://gre/modules/Timer.sys.mjs",
  setTimeout: "resource://gre/modules/Timer.sys.mjs",
  TabStateFlusher: "resource:///modules/sessionstore/TabStateFlusher.sys.mjs",
});

const WINDOW = "navigator:browser";
/** How long tabs may take to tell what they have, in milliseconds. */
const FLUSH_TIME = 2000;
/** Sentences of what is left out of one origin. */
const MAX_SKIPPED = 20;

const SAME_SITE = [
  ["None", Ci.nsICookie.SAMESITE_NONE],
  ["Lax", Ci.nsICookie.SAMESITE_LAX],
  ["Strict", Ci.nsICookie.SAMESITE_STRICT],
];

/** All tabs of pages without a container. */
const tabs = () =>
  [...Services.wm.getEnumerator(WINDOW)]
    .flatMap(window => [...(window.gBrowser?.tabs ?? [])])
    .filter(tab => !tab.userContextId);

const principalOf = origin => Services.scriptSecurityManager.createContentPrincipalFromOrigin(origin);

/** Origins that were not given all that they should have been. */
const unwritten = new Set();

/** {script, limit, time, path}: writes {cookies, origins, warnings, unread} to the file, within so many milliseconds. */
export async function readStorage({ script, limit, time, path }) {
  const until = Date.now() + time;
  const warnings = [];
  const unread = [];
  const { sessions, untold } = await readSessions(until);
  const origins = [];
  let left = limit;
  for (const origin of new Set([...(await storedOrigins()), ...visitedOrigins(), ...Object.keys(sessions)])) {
    try {
      const items = localItems(origin);
      const own = sessions[origin] ?? [];
      const asked = JSON.stringify({ read: { session: false, limit: left - sizeOf(items) - sizeOf(own) } });
      const { origin: read, partly, skipped } = JSON.parse(await before(until, runInSandbox(origin, script, asked)));
      const of = items => wellFormed(items, skipped);
      const whole = { ...read, origin, localStorage: of(items), sessionStorage: of(own) };
      const size = JSON.stringify(whole).length;
      if (size > left) throw new Error("with it the state would be larger than it may be");
      left -= size;
      origins.push(whole);
      warnings.push(...skipped.map(what => `${origin}: left out: ${what}`));
      if (unwritten.has(origin)) warnings.push(`${origin}: left out: not all of it was put into this browser`);
      if (partly || unwritten.has(origin)) unread.push(origin);
    } catch (error) {
      warnings.push(`${origin}: left out: ${String(error.message ?? error).toWellFormed().slice(0, 300)}`);
      unread.push(origin);
    }
  }
  for (const origin of untold) {
    warnings.push(`${origin}: left out: the session storage of its tab: it took too long`);
    if (!unread.includes(origin)) unread.push(origin);
  }
  await IOUtils.writeJSON(path, { cookies: readCookies(), origins, warnings, unread });
}

/** What a promise gives, or an error when the time comes first. */
async function before(until, promised) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = lazy.setTimeout(() => reject(new Error("it took too long")), Math.max(0, until - Date.now()));
  });
  return Promise.race([promised, late]).finally(() => lazy.clearTimeout(timer));
}

/** Items that JSON carries: no text that ends in the middle of a character. Says what is left out; not of everything. */
const wellFormed = (items, skipped) =>
  items.filter(({ name, value }) => {
    const isWellFormed = name.isWellFormed() && value.isWellFormed();
    if (!isWellFormed && skipped.length < MAX_SKIPPED) {
      skipped.push(`the item ${name.slice(0, 250).toWellFormed()}, which is no text of Unicode`);
    }
    return isWellFormed;
  });

/** {script, path}: puts the state in the file into the browser; gives sentences of what was left out. */
export async function writeStorage({ script, path }) {
  const { cookies, origins } = await IOUtils.readJSON(path);
  const leftOut = cookies.flatMap(writeCookie);
  const leaveOut = (origin, what) => {
    unwritten.add(origin);
    leftOut.push(`${origin}: left out: ${what}`);
  };
  for (const { origin, localStorage = [], indexedDB = [], opfs = [] } of origins) {
    try {
      const storage = localStorage.length ? localStorageOf(origin) : null;
      for (const { name, value } of localStorage) storage.setItem(name, value);
      if (indexedDB.length + opfs.length) {
        const asked = JSON.stringify({ write: { indexedDB, opfs }, session: false });
        const { skipped } = JSON.parse(await runInSandbox(origin, script, asked));
        for (const what of skipped) leaveOut(origin, what);
      }
    } catch (error) {
      leaveOut(origin, error.message ?? error);
    }
  }
  writeSessions(origins);
  return leftOut;
}

function readCookies() {
  return Services.cookies.cookies
    .filter(({ originAttributes: { userContextId, privateBrowsingId } }) => !userContextId && !privateBrowsingId)
    // Without the page in which alone it exists a cookie would be everybody's.
    .filter(({ originAttributes: { partitionKey } }) => !partitionKey || siteOf(partitionKey))
    .map(cookie => ({
      name: cookie.name,
      value: cookie.value,
      domain: cookie.host,
      path: cookie.path,
      expires: cookie.isSession ? -1 : seconds(cookie.expiry),
      httpOnly: cookie.isHttpOnly,
      secure: cookie.isSecure,
      sameSite: SAME_SITE.find(([, number]) => number === cookie.sameSite)?.[0],
      partitionKey: siteOf(cookie.originAttributes.partitionKey),
    }));
}

/** Newer releases count milliseconds. */
const COUNTS_MILLISECONDS = Services.vc.compare(Services.appinfo.version, "142") >= 0;
const seconds = expiry => (COUNTS_MILLISECONDS ? expiry / 1000 : expiry);
const expiryOf = seconds => Math.round(COUNTS_MILLISECONDS ? seconds * 1000 : seconds);

/** "(https,example.com)" is https://example.com. */
function siteOf(partitionKey) {
  const [, scheme, host, port] = /^\((https?),([^,)]+)(?:,(\d+))?/.exec(partitionKey ?? "") ?? [];
  return host ? `${scheme}://${host}${port ? `:${port}` : ""}` : undefined;
}

function partitionKeyOf(site) {
  const [, scheme, host, port] = /^(https?):\/\/(\[[^\]]+\]|[^:/]+)(?::(\d+))?$/.exec(site ?? "") ?? [];
  return host ? `(${scheme},${host}${port ? `,${port}` : ""})` : "";
}

/** Sets a cookie; gives why it was left out, if it was. */
function writeCookie(cookie) {
  const { name, value, domain, path, expires, httpOnly, secure, sameSite, partitionKey } = cookie;
  const isSession = expires < 0;
  const day = 86_400;
  const validation = Services.cookies.add(
    domain,
    path,
    name,
    value,
    secure,
    httpOnly,
    isSession,
    expiryOf(isSession ? Date.now() / 1000 + day : expires),
    { partitionKey: partitionKeyOf(partitionKey) },
    // Where none is named, browsers without the newer rule say "None".
    sameSite === "None" && !secure ? Ci.nsICookie.SAMESITE_UNSET : sameOf(sameSite),
    secure ? Ci.nsICookie.SCHEME_HTTPS : Ci.nsICookie.SCHEME_HTTP,
    Boolean(partitionKey)
  );
  const refused = validation && validation.result !== Ci.nsICookieValidation.eOK;
  return refused ? [`the cookie ${name} of ${domain}: left out: ${validation.errorString}`] : [];
}

const sameOf = sameSite => SAME_SITE.find(([name]) => name === sameSite)?.[1] ?? Ci.nsICookie.SAMESITE_UNSET;

/** Whether storage is made for a window that the browser knows, and for nobody else. */
const VALIDATION = "dom.storage.client_validation";

/** An origin's local storage, as its pages have it. */
function localStorageOf(origin) {
  const principal = principalOf(origin);
  // There is no window here. Pages run meanwhile, but this call waits for none of them.
  Services.prefs.setBoolPref(VALIDATION, false);
  try {
    return Services.domStorageManager.createStorage(null, principal, principal, "", false);
  } finally {
    Services.prefs.clearUserPref(VALIDATION);
  }
}

function localItems(origin) {
  const storage = localStorageOf(origin);
  return Array.from({ length: storage.length }, (_, at) => {
    const name = storage.key(at);
    return { name, value: storage.getItem(name) ?? "" };
  });
}

const sizeOf = items => items.reduce((sum, { name, value }) => sum + name.length + value.length, 0);

/** Runs the agent's script in a place of that origin that has no document. */
async function runInSandbox(origin, script, asked) {
  const sandbox = new Cu.Sandbox(principalOf(origin), {
    sandboxName: "warmpool storage",
    wantGlobalProperties: ["indexedDB", "storage", "atob", "btoa"],
    wantComponents: false,
    // As a page of the origin is. A sandbox would not be one by itself.
    forceSecureContext: principalOf(origin).isOriginPotentiallyTrustworthy,
  });
  try {
    sandbox.asked = asked;
    return await Cu.evalInSandbox(`${script}(asked)`, sandbox);
  } finally {
    Cu.nukeSandbox(sandbox);
  }
}

/** Origins that have something on the disk, or soon will have. */
async function storedOrigins() {
  const usage = await new Promise(resolve => Services.qms.getUsage(resolve, true));
  const all = usage.resultCode === Cr.NS_OK ? usage.result.map(({ origin }) => origin) : [];
  return all.filter(isPlain);
}

/** Origins of the documents that tabs show, or have shown. */
function visitedOrigins() {
  const urls = tabs().flatMap(({ linkedBrowser: { browsingContext } }) => {
    const history = browsingContext.sessionHistory;
    const entries = Array.from({ length: history?.count ?? 0 }, (_, at) => history.getEntryAtIndex(at).URI.spec);
    const frames = browsingContext.getAllBrowsingContextsInSubtree();
    return [...entries, ...frames.map(frame => frame.currentWindowGlobal?.documentURI?.spec ?? "")];
  });
  return originsOf(urls);
}

const originsOf = urls => urls.map(url => URL.parse(url)?.origin).filter(origin => origin && isPlain(origin));

const isPlain = origin => /^https?:\/\/[^^]+$/.test(origin);

/** Session storage of all tabs, by origin, and origins whose tab told nothing new; of two tabs with the same origin the first counts. */
async function readSessions(until) {
  const read = {};
  const silent = new Set(tabs().map(tab => tab.linkedBrowser));
  // A page that hangs tells nothing new, and what is known of it is taken.
  const flushes = [...silent].map(browser => lazy.TabStateFlusher.flush(browser).then(() => silent.delete(browser)));
  await before(Math.min(until, Date.now() + FLUSH_TIME), Promise.allSettled(flushes)).catch(() => {});
  const untold = new Set(originsOf([...silent].map(browser => browser.currentURI.spec)));
  for (const tab of tabs()) {
    const { storage = {} } = JSON.parse(lazy.SessionStore.getTabState(tab));
    for (const [origin, items] of Object.entries(storage)) {
      if (isPlain(origin)) read[origin] ??= Object.entries(items).map(([name, value]) => ({ name, value }));
    }
  }
  return { sessions: read, untold };
}

/** Gives the first tab its session storage. */
function writeSessions(origins) {
  const given = origins.filter(({ sessionStorage }) => sessionStorage?.length);
  const context = tabs()[0]?.linkedBrowser.browsingContext;
  if (!given.length || !context) return;
  const items = list => Object.fromEntries(list.map(({ name, value }) => [name, value]));
  const storage = Object.fromEntries(given.map(({ origin, sessionStorage }) => [origin, items(sessionStorage)]));
  SessionStoreUtils.restoreSessionStorageFromParent(context, storage);
}
