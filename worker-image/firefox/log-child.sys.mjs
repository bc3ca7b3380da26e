// Passes on what the pages of a process write to the console. It reads values as the browser sees them, so nothing of a
// page runs for it.

const MESSAGE = "warmpool-log";

/** Longer texts are cut, in characters. */
const LONGEST = 4000;
/** The most entries of one process in a second; further ones are counted. */
const MOST = 500;

const LEVELS = {
  error: "error",
  exception: "error",
  assert: "error",
  warn: "warning",
  debug: "debug",
};

/** What says nothing. */
const SILENT = ["clear", "groupEnd", "time", "profile", "profileEnd"];

let second = 0;
let count = 0;
let missed = 0;

function heard(event) {
  // Numbers are of windows. What is not of one is of the browser, or of a worker that many pages share.
  const { level, chromeContext, innerID, timeStamp, filename, lineNumber } = event;
  if (chromeContext || !(typeof innerID === "number" || innerID === "ServiceWorker" || innerID === "SharedWorker")) return;
  if (SILENT.includes(level)) return;
  const now = Math.floor(Date.now() / 1000);
  if (now !== second) [second, count] = [now, 0];
  if ((count += 1) > MOST) {
    missed += 1;
    return;
  }
  Services.cpmm.sendAsyncMessage(MESSAGE, {
    level: LEVELS[level] ?? "info",
    text: words(event),
    url: filename?.slice(0, LONGEST),
    line: lineNumber,
    time: timeStamp,
    missed,
  });
  missed = 0;
}

function words({ counter, timer, arguments: values }) {
  if (counter) return `${counter.label}: ${counter.count}`.slice(0, LONGEST);
  if (timer?.duration !== undefined) return `${timer.name}: ${timer.duration} ms`.slice(0, LONGEST);
  let said = "";
  for (const value of values ?? []) {
    if (said.length > LONGEST) break;
    said += (said ? " " : "") + describe(value);
  }
  return said.slice(0, LONGEST);
}

/** A value as a person would see it. */
function describe(value) {
  if (typeof value === "string") return value;
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "symbol") return value.toString();
  if (value === null || (typeof value !== "object" && typeof value !== "function")) return String(value);
  try {
    const name = ChromeUtils.getClassName(value, true);
    if (name === "Array") return `Array(${value.length})`;
    if (name === "Function") return `function ${value.name || "anonymous"}`;
    if (!name.endsWith("Error") && name !== "DOMException") return name;
    return `${value.name}: ${value.message}${value.stack ? `\n${value.stack}` : ""}`;
  } catch {
    return "Object";
  }
}

Cc["@mozilla.org/consoleAPI-storage;1"]
  .getService(Ci.nsIConsoleAPIStorage)
  .addLogEventListener(heard, Services.scriptSecurityManager.getSystemPrincipal());
