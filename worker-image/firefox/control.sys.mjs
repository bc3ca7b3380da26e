// The agent's own channel into the browser: lines of JSON over a unix socket that only the agent listens on.
//
// A command is {id, method, params} and is answered by {id, result} or {id, error}. The browser tells, unasked, how it
// began ({event: "hello"}) and of downloads. Nothing of this is a remote protocol's session, so clients meet no trace.

import { answerAds, blockAds, connectAds } from "resource://warmpool/ads.sys.mjs";
import { askCaptchas, connectCaptchas, watchCaptchas } from "resource://warmpool/captchas.sys.mjs";
import { closeContext, openContext, openWindow } from "resource://warmpool/contexts.sys.mjs";
import { watchDownloads } from "resource://warmpool/downloads.sys.mjs";
import { loadExtension } from "resource://warmpool/extensions.sys.mjs";
import { closeFence } from "resource://warmpool/fence.sys.mjs";
import { connectLog, keepLog } from "resource://warmpool/log.sys.mjs";
import { actOn, listPages, openFirst } from "resource://warmpool/pages.sys.mjs";
import { freeAbandonedSessions } from "resource://warmpool/sessions.sys.mjs";
import { applySettings, watchWindows } from "resource://warmpool/settings.sys.mjs";
import { readStorage, writeStorage } from "resource://warmpool/storage.sys.mjs";
import { trustAuthorities } from "resource://warmpool/trust.sys.mjs";

const WINDOW = "navigator:browser";

/** Milliseconds between two tries to draw a page. */
const LOOK = 10;

/** The longest line that the agent takes, in bytes. It leaves out a longer one, and whoever waited for it would wait for ever. */
const LONGEST_LINE = 1 << 20;

/** Where commands come from and answers go. */
class Channel {
  #input;
  #output;
  #scriptable;
  #decoder = new TextDecoder();
  #encoder = new TextEncoder();
  #rest = "";

  constructor(path) {
    const file = Cc["@mozilla.org/file/local;1"].createInstance(Ci.nsIFile);
    file.initWithPath(path);
    const transport = Cc["@mozilla.org/network/socket-transport-service;1"]
      .getService(Ci.nsISocketTransportService)
      .createUnixDomainTransport(file);
    this.#input = transport.openInputStream(0, 0, 0).QueryInterface(Ci.nsIAsyncInputStream);
    this.#output = Cc["@mozilla.org/binaryoutputstream;1"].createInstance(Ci.nsIBinaryOutputStream);
    // The write blocks: messages are short, and the agent always reads.
    this.#output.setOutputStream(transport.openOutputStream(Ci.nsITransport.OPEN_BLOCKING, 0, 0));
    this.#scriptable = Cc["@mozilla.org/binaryinputstream;1"].createInstance(Ci.nsIBinaryInputStream);
    this.#scriptable.setInputStream(this.#input);
  }

  send(message) {
    const line = message => this.#encoder.encode(`${JSON.stringify(message)}\n`);
    let bytes = line(message);
    if (bytes.length > LONGEST_LINE && "id" in message) bytes = line({ id: message.id, error: "its answer is too long" });
    try {
      this.#output.writeByteArray(Array.from(bytes));
    } catch {
      // The agent is gone, and the container goes with it.
    }
  }

  listen() {
    this.#input.asyncWait(this, 0, 0, Services.tm.mainThread);
  }

  // nsIInputStreamCallback
  onInputStreamReady(stream) {
    let bytes;
    try {
      bytes = this.#scriptable.readByteArray(stream.available());
    } catch {
      return;
    }
    this.#rest += this.#decoder.decode(new Uint8Array(bytes), { stream: true });
    const lines = this.#rest.split("\n");
    this.#rest = lines.pop();
    for (const line of lines) this.#answer(JSON.parse(line));
    this.listen();
  }

  async #answer({ id, method, params }) {
    try {
      this.send({ id, result: (await METHODS[method](params)) ?? null });
    } catch (error) {
      this.send({ id, error: String(error) });
    }
  }

  QueryInterface = ChromeUtils.generateQI(["nsIInputStreamCallback"]);
}

const METHODS = {
  ping: () => true,
  settings: applySettings,
  trust: trustAuthorities,
  prefs: setPrefs,
  loadExtension,
  navigate,
  painted,
  pages: listPages,
  act: actOn,
  openContext,
  openWindow,
  closeContext,
  blockAds,
  answerAds,
  watchCaptchas,
  askCaptchas,
  keepLog,
  readStorage,
  writeStorage,
  quit,
};

/** Ends the browser once this is answered. No page is asked, and all files are closed. */
function quit() {
  Services.tm.dispatchToMainThread(() => Services.startup.quit(Ci.nsIAppStartup.eForceQuit));
}

/** Sets preferences for good, as their user would. */
function setPrefs(prefs) {
  for (const [name, value] of Object.entries(prefs)) {
    if (typeof value === "string") Services.prefs.setStringPref(name, value);
    else if (typeof value === "boolean") Services.prefs.setBoolPref(name, value);
    else Services.prefs.setIntPref(name, value);
  }
}

/** Opens an address in the first tab; gives the reason when it does not load. */
function navigate({ url }) {
  const browser = Services.wm.getMostRecentWindow(WINDOW)?.gBrowser.browsers[0];
  return browser ? openFirst(browser, url) : null;
}

/** Waits until the first window is ready and its page has been drawn. */
async function painted() {
  const isReady = window => window?.gBrowserInit?.delayedStartupFinished;
  if (!isReady(Services.wm.getMostRecentWindow(WINDOW))) {
    await new Promise(resolve => {
      const observer = () => {
        Services.obs.removeObserver(observer, "browser-delayed-startup-finished");
        resolve();
      };
      Services.obs.addObserver(observer, "browser-delayed-startup-finished");
    });
  }
  const window = Services.wm.getMostRecentWindow(WINDOW);
  for (;;) {
    try {
      const page = window.gBrowser.selectedBrowser.browsingContext.currentWindowGlobal;
      (await page.drawSnapshot(null, 1, "rgb(255,255,255)")).close();
      return;
    } catch {
      // Its process is starting, or it has no size yet. The agent's patience is what bounds this.
      await new Promise(resolve => window.setTimeout(resolve, LOOK));
    }
  }
}

/** What the agent has to know of this browser. */
function hello() {
  const http = Cc["@mozilla.org/network/protocol;1?name=http"].getService(Ci.nsIHttpProtocolHandler);
  const isSandboxed = name => {
    try {
      return Services.sysinfo.getPropertyAsBool(name);
    } catch {
      return false;
    }
  };
  return {
    event: "hello",
    version: Services.appinfo.version,
    userAgent: http.userAgent,
    sandboxed: isSandboxed("hasUserNamespaces") && isSandboxed("hasSeccompBPF"),
  };
}

/** Opens the channel; called once, while Firefox reads its preferences. */
export function start(path) {
  // Nothing but preferences works yet.
  const begin = () => {
    Services.obs.removeObserver(begin, "final-ui-startup");
    // First, for without a fence the agent hears nothing, and the worker does not start.
    closeFence();
    const channel = new Channel(path);
    channel.send(hello());
    channel.listen();
    connectAds(message => channel.send(message));
    connectCaptchas(message => channel.send(message));
    connectLog(message => channel.send(message));
    freeAbandonedSessions();
    watchWindows();
    watchDownloads(event => channel.send(event));
  };
  Services.obs.addObserver(begin, "final-ui-startup");
}
