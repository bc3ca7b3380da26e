// Tells the agent what pages say, ask for and save, once a session asks for that.
//
// Channels and errors of scripts are seen in the parent process, whatever process, context or worker they are of. What pages
// write to the console stays in their own processes; a script in each of these passes it on. Pages see nothing of it.

import { nameOf } from "resource://warmpool/pages.sys.mjs";

const MESSAGE = "warmpool-log";
const CHILD = "resource://warmpool/log-child.sys.mjs";

/** Longer texts are cut, in characters: the agent takes lines of a bounded length. */
const LONGEST = 4000;
/** The most headers of a message, and the longest of them, in characters. */
const MAX_HEADERS = 64;
const LONGEST_HEADER = 1000;
/** The most frames of a stack. */
const MAX_FRAMES = 30;

/** What DevTools calls a type of request. */
const { nsIContentPolicy: TYPES } = Ci;
const RESOURCES = {
  [TYPES.TYPE_DOCUMENT]: "Document",
  [TYPES.TYPE_SUBDOCUMENT]: "Document",
  [TYPES.TYPE_SCRIPT]: "Script",
  [TYPES.TYPE_IMAGE]: "Image",
  [TYPES.TYPE_IMAGESET]: "Image",
  [TYPES.TYPE_STYLESHEET]: "Stylesheet",
  [TYPES.TYPE_XMLHTTPREQUEST]: "XHR",
  [TYPES.TYPE_FETCH]: "Fetch",
  [TYPES.TYPE_FONT]: "Font",
  [TYPES.TYPE_MEDIA]: "Media",
  [TYPES.TYPE_WEBSOCKET]: "WebSocket",
  [TYPES.TYPE_WEB_MANIFEST]: "Manifest",
  [TYPES.TYPE_PING]: "Ping",
  [TYPES.TYPE_BEACON]: "Ping",
  [TYPES.TYPE_CSP_REPORT]: "CSPViolationReport",
};

/** Writes a line of the log. */
let write = null;

/** Whether it is kept already. */
let isKept = false;

/** Which channel ended last. Some are told twice. */
let lastEnded = null;

/** Called with the way to the agent before anything else. */
export function connectLog(send) {
  write = line => send({ event: "log", line });
}

/** From now on, until the browser ends. */
export function keepLog() {
  if (isKept) return;
  isKept = true;
  for (const topic of ["http-on-stop-request", "http-on-failed-opening-request"]) Services.obs.addObserver(ended, topic);
  Services.console.registerListener({ observe: heard });
  Services.ppmm.addMessageListener(MESSAGE, ({ data }) => passOn(data));
  Services.ppmm.loadProcessScript(`data:,ChromeUtils.importESModule("${CHILD}")`, true);
}

const text = (string, longest = LONGEST) => String(string ?? "").slice(0, longest).toWellFormed();
const place = (url, line) => (url ? { url: text(url), line: line > 0 ? line : null } : {});

// --- Requests ---------------------------------------------------------------------------------------------------------

/** What the browser itself asks for is not the pages' concern. */
function isOfPage({ loadInfo }) {
  if (loadInfo.externalContentPolicyType === TYPES.TYPE_DOCUMENT) return true;
  const principal = loadInfo.loadingPrincipal ?? loadInfo.triggeringPrincipal;
  return Boolean(principal) && !principal.isSystemPrincipal;
}

function ended(subject) {
  const channel = subject.QueryInterface(Ci.nsIHttpChannel);
  if (!isOfPage(channel)) return;
  const { asyncOpenTime } = channel.QueryInterface(Ci.nsITimedChannel);
  const name = `${channel.channelId} ${asyncOpenTime}`;
  if (name === lastEnded) return;
  lastEnded = name;
  const now = Date.now();
  // Microseconds, 0 where it was never opened.
  const since = asyncOpenTime > 0 ? Math.min(asyncOpenTime / 1000, now) : now;
  const { loadInfo, status } = channel;
  const sent = channel instanceof Ci.nsIUploadChannel && Boolean(channel.uploadStream);
  const answer = answerOf(channel);
  // A redirect ends one channel, and opens another.
  const isWhole = Components.isSuccessCode(status) || status === Cr.NS_BINDING_REDIRECTED || answer?.status === 101;
  write({
    type: "request",
    time: now,
    method: text(channel.requestMethod),
    url: text(channel.URI.spec),
    resource: RESOURCES[loadInfo.externalContentPolicyType] ?? "Other",
    headers: headers(visitor => channel.visitRequestHeaders(visitor)),
    had_body: sent,
    began_ms: since,
    took_ms: now - since,
    answer,
    failure: isWhole ? null : nameOf(status),
    bytes: answer && channel.transferSize,
  });
}

/** None where there was no answer. */
function answerOf(channel) {
  let status;
  try {
    status = channel.responseStatus;
  } catch {
    return null;
  }
  const read = member => {
    try {
      return text(channel[member]);
    } catch {
      return "";
    }
  };
  return {
    status,
    reason: read("responseStatusText"),
    protocol: read("protocolVersion"),
    media_type: read("contentType"),
    headers: headers(visitor => channel.visitResponseHeaders(visitor)),
    timing: timing(channel),
  };
}

function headers(visit) {
  const found = {};
  let count = 0;
  visit({
    visitHeader(name, value) {
      if ((count += 1) <= MAX_HEADERS) found[text(name, LONGEST_HEADER)] = text(value, LONGEST_HEADER);
    },
  });
  return found;
}

/** How long the parts took, in milliseconds. The browser's own moments are in microseconds, 0 where there was none. */
function timing(channel) {
  const times = channel.QueryInterface(Ci.nsITimedChannel);
  const between = (from, to) => (from > 0 && to >= from ? (to - from) / 1000 : null);
  return {
    dns: between(times.domainLookupStartTime, times.domainLookupEndTime),
    connect: between(times.connectStartTime, times.connectEndTime),
    ssl: between(times.secureConnectionStartTime, times.connectEndTime),
    wait: between(times.requestStartTime, times.responseStartTime),
    until_headers: between(times.asyncOpenTime, times.responseStartTime),
  };
}

// --- Errors, and what the browser says about pages ----------------------------------------------------------------------

const { errorFlag, warningFlag, infoFlag } = Ci.nsIScriptError;

function heard(message) {
  if (!(message instanceof Ci.nsIScriptError) || message.isFromChromeContext) return;
  const { category, flags, innerWindowID, timeStamp, errorMessage, sourceName, lineNumber } = message;
  if (category.includes("chrome") || category === "component javascript") return;
  const said = { time: timeStamp, text: text(errorMessage), ...place(sourceName, lineNumber) };
  if (category === "content javascript" && !(flags & (warningFlag | infoFlag))) {
    write({ type: "page_error", ...said, text: text(said.text + stackOf(message.stack)) });
  } else if (innerWindowID) {
    const level = flags & infoFlag ? "info" : flags & warningFlag ? "warning" : "error";
    write({ type: "console", level, ...said });
  }
}

function stackOf(frame) {
  let lines = "";
  for (let count = 0; frame && count < MAX_FRAMES; count += 1, frame = frame.parent ?? frame.asyncParent) {
    lines += `\n    at ${frame.functionDisplayName || "<anonymous>"} (${frame.source}:${frame.line}:${frame.column})`;
  }
  return lines;
}

// --- The console --------------------------------------------------------------------------------------------------------

/** The process of a page is not trusted with the form. */
function passOn({ level, text: words, url, line, time, missed }) {
  if (missed > 0) write({ type: "missed", count: Math.floor(missed) });
  const levels = ["error", "warning", "info", "debug"];
  if (!levels.includes(level)) return;
  write({ type: "console", level, time: Math.floor(time) || Date.now(), text: text(words), ...place(url, Math.floor(line)) });
}
