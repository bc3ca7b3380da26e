// Makes a client's settings true in every page there is and in every later one.
//
// Languages, user agent, colours and motion are preferences, which reach all processes, workers and contexts; the locale of
// `Intl` and the time zone are of each process. What a client overrides for pages of its own, over a protocol, comes before all of these. The size of
// pages is that of their window: each window is made so large that its pages get the size, and a client may resize it as
// any other.

const WINDOW = "navigator:browser";

const USER_AGENT = "general.useragent.override";
const LANGUAGES = "intl.accept_languages";
const COLORS = "layout.css.prefers-color-scheme.content-override";
const MOTION = "ui.prefersReducedMotion";

/** Who asks where it is gets the answer of this address, from the one provider that asks nobody else. */
const PLACE = "geo.provider.network.url";
const ONE_PROVIDER = "geo.provider.testing";

/** The preferences that grant a permission to all sites, by its name. */
const PERMISSIONS = {
  camera: ["permissions.default.camera", 1],
  geolocation: ["permissions.default.geo", 1],
  microphone: ["permissions.default.microphone", 1],
  notifications: ["permissions.default.desktop-notification", 1],
  "clipboard-read": ["dom.events.testing.asyncClipboard", true],
  "clipboard-write": ["dom.events.testing.asyncClipboard", true],
};

/** How often a window is measured again while it takes its size. */
const LOOK = 10;
/** Pixels that a window may have around its page on one axis. */
const FRAME = 300;
/** How long it may take, in milliseconds. */
const PATIENCE = 3000;

/** Inner size of pages that a client asked for, or null. */
let viewport = null;

/** The script that tells later processes their locale and time zone. */
let script = null;

/**
 * {locales: [tag], userAgent: string|null, viewport: {width, height}|null, timezone: string|null, isDark: boolean|null,
 * isReduced: boolean|null, geolocation: {latitude, longitude, accuracy}|null, permissions: [name]}; gives sentences of what holds in part.
 */
export async function applySettings(settings) {
  set(USER_AGENT, settings.userAgent);
  set(LANGUAGES, settings.locales.join(", "));
  setNumber(COLORS, settings.isDark === null ? null : settings.isDark ? 0 : 1);
  setNumber(MOTION, settings.isReduced === null ? null : Number(settings.isReduced));
  setPlace(settings.geolocation);
  for (const [name] of Object.values(PERMISSIONS)) Services.prefs.clearUserPref(name);
  for (const [name, value] of settings.permissions.map(permission => PERMISSIONS[permission])) {
    if (value === true) Services.prefs.setBoolPref(name, true);
    else Services.prefs.setIntPref(name, value);
  }
  tellProcesses(settings.locales[0] ?? "", settings.timezone ?? "");
  viewport = settings.viewport;
  const windows = [...Services.wm.getEnumerator(WINDOW)];
  for (const window of windows) window.gBrowser.browsers.forEach(({ browsingContext }) => coverScreen(browsingContext));
  const fitted = await Promise.all(windows.map(fit));
  return fitted.every(Boolean) ? [] : ["a window could not be made as large as its pages should be"];
}

function set(name, value) {
  if (value) Services.prefs.setStringPref(name, value);
  else Services.prefs.clearUserPref(name);
}

function setNumber(name, value) {
  if (value === null) Services.prefs.clearUserPref(name);
  else Services.prefs.setIntPref(name, value);
}

function setPlace(place) {
  if (place) {
    const { latitude: lat, longitude: lng, accuracy } = place;
    const answer = JSON.stringify({ location: { lat, lng }, accuracy });
    Services.prefs.setStringPref(PLACE, `data:application/json,${encodeURIComponent(answer)}`);
    Services.prefs.setBoolPref(ONE_PROVIDER, true);
  } else {
    Services.prefs.clearUserPref(PLACE);
    Services.prefs.clearUserPref(ONE_PROVIDER);
  }
}

/** What `Intl` and dates use where a script names no locale or zone, in this and every later process of pages; empty for its own. */
function tellProcesses(locale, timezone) {
  if (script) Services.ppmm.removeDelayedProcessScript(script);
  else if (!locale && !timezone) return;
  // A browser that a client has started may have a zone of the client's, in its environment.
  const zone = timezone ? `Cu.getJSTestingFunctions().setTimeZone(${JSON.stringify(timezone)});` : "";
  const lines = `if (Services.appinfo.processType !== Services.appinfo.PROCESS_TYPE_DEFAULT) {
    Cu.getJSTestingFunctions().setDefaultLocale(${JSON.stringify(locale)});
    ${zone}
  }`;
  script = `data:application/javascript,${encodeURIComponent(lines)}`;
  Services.ppmm.loadProcessScript(script, true);
}

/** Gives later windows and tabs, popups among them, the size too. */
export function watchWindows() {
  Services.obs.addObserver(window => void settle(window), "browser-window-before-show");
  Services.obs.addObserver(coverScreen, "browsing-context-attached");
}

/** Keeps a new window at its size until it is set up: what its opener wants of it comes in between. */
async function settle(window) {
  while (viewport && !window.closed) {
    if (window.document.readyState === "complete") await fit(window);
    if (window.gBrowserInit?.delayedStartupFinished) return;
    await pause(window);
  }
}

const pause = window => new Promise(resolve => window.setTimeout(resolve, LOOK));

/** Makes the screen that a page sees as large as the page. */
function coverScreen(context) {
  if (!viewport || context.parent || !context.isContent) return;
  context.setScreenAreaOverride(viewport.width, viewport.height);
}

/** For each window that was given its size: how large it became outside. */
const sized = new WeakMap();

/** Resizes a window so that its pages have the size; says whether they do. */
async function fit(window) {
  if (!viewport) return true;
  const { width, height } = viewport;
  const deadline = ChromeUtils.now() + PATIENCE;
  while (!window.closed && ChromeUtils.now() < deadline) {
    const { clientWidth, clientHeight } = window.gBrowser.tabpanels;
    const [dx, dy] = [width - clientWidth, height - clientHeight];
    if (dx === 0 && dy === 0) {
      if (!sized.has(window)) keepFitting(window);
      sized.set(window, [window.outerWidth, window.outerHeight]);
      return true;
    }
    // While the layout lags behind the window, what lies around a page seems to be larger than it ever is.
    if (window.outerWidth - clientWidth <= FRAME && window.outerHeight - clientHeight <= FRAME) window.resizeBy(dx, dy);
    await pause(window);
  }
  return window.closed;
}

/** Gives room back to pages that tabs or bars take from them, but not in a window that a client has resized. */
function keepFitting(window) {
  const observer = new window.ResizeObserver(() => {
    const [width, height] = sized.get(window) ?? [];
    if (window.outerWidth === width && window.outerHeight === height) fit(window);
  });
  observer.observe(window.gBrowser.tabpanels);
}
